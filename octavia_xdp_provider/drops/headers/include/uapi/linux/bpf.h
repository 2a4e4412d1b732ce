/* SPDX-License-Identifier: Apache-2.0 */
/* Of what bcc includes this for, the program uses nothing. */
