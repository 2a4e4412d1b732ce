/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the kernel's headers: definitions that bcc's preamble and
 * drops.bpf.c use. bcc includes this file first, as linux/kconfig.h.
 */
#pragma once

#define CONFIG_BPF_SYSCALL 1
#define CONFIG_BPF_EVENTS 1

/* bcc's preamble depends on the version: use the oldest supported kernel. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 1, 0)

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32, __wsum;
typedef __u64 __aligned_u64 __attribute__((aligned(8)));

typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;

typedef _Bool bool;
typedef unsigned long size_t;
typedef unsigned long uintptr_t;

#define true 1
#define false 0
#define NULL ((void *)0)
