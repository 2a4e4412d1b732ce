/* SPDX-License-Identifier: Apache-2.0 */
/* A node whose program is attached to several interfaces, and other programs
 * to take its place. */
#ifndef OXP_ATTACHED_H
#define OXP_ATTACHED_H

#include "forward.skel.h"
#include "harness.h"

#define DEVICES 3

extern uint32_t device[DEVICES];

void make_devices(void);
/* Those that are left. */
void delete_devices(void);
/* A fresh state with the program on all devices. */
struct oxp_node *attached_state(void);
/* Of all devices, in their order; 0: it has none. */
void program_ids(struct oxp_node *node, uint32_t ids[DEVICES]);
/* Of the first device. */
uint32_t program_id(struct oxp_node *node);
void assert_all_replaced(struct oxp_node *node, const uint32_t before[DEVICES]);
/* Loaded, and attached nowhere. */
struct forward *another_program(struct oxp_node *node);
/* As if another build of the library had attached it. */
void attach_another(struct oxp_node *node);

#endif
