/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The oldest kernel that is supported: what bcc makes depend on it. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 1, 0)
