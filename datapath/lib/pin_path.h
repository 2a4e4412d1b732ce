/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of pins, for the states of nodes and of hypervisors. */
#ifndef OXP_PIN_PATH_H
#define OXP_PIN_PATH_H

/* <root>/<folder>, or with a name in it unless that is NULL; to be freed. NULL:
 * no memory. */
char *path_below(const char *root, const char *folder, const char *name);

/* With the files in it; folders in it stay, and it with them. */
void remove_folder_below(const char *root, const char *folder);

#endif
