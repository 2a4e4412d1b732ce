/* SPDX-License-Identifier: Apache-2.0 */
/* A node whose program is attached to several interfaces, and other programs to
 * replace it. */
#ifndef OXP_ATTACHED_H
#define OXP_ATTACHED_H

#include "forward.skel.h"
#include "harness.h"

#define DEVICES 3

extern uint32_t device[DEVICES];

void make_devices(void);
/* Delete those that still exist. */
void delete_devices(void);
/* Returns a fresh state with the program on all devices. */
struct oxp_node *attached_state(void);
/* By device; 0: it has no program. */
void program_ids(struct oxp_node *node, uint32_t ids[DEVICES]);
/* The program of the first device. */
uint32_t program_id(struct oxp_node *node);
void assert_all_replaced(struct oxp_node *node, const uint32_t before[DEVICES]);
/* Loaded, but not attached. */
struct forward *another_program(struct oxp_node *node);
/* Attach it as another build of the library would. */
void attach_another(struct oxp_node *node);

#endif
