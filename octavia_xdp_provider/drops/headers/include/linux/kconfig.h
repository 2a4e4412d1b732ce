/* SPDX-License-Identifier: Apache-2.0 */
/* The first that bcc includes, before all else. */
#define CONFIG_BPF_SYSCALL 1
#define CONFIG_BPF_EVENTS 1
