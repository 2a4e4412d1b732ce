/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of pins, for the state of nodes and of hypervisors. */
#ifndef OXP_PIN_PATH_H
#define OXP_PIN_PATH_H

/* Return <root>/<folder>, or <root>/<folder>/<name> if `name` is not NULL. The
 * caller frees it. NULL: out of memory. */
char *path_below(const char *root, const char *folder, const char *name);

/* Remove the folder and its files; if it has subfolders it stays. */
void remove_folder_below(const char *root, const char *folder);

#endif
