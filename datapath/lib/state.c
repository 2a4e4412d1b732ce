// SPDX-License-Identifier: Apache-2.0
/* The lists of maps: see OXP_MAPS in layout.h. */
#include "state.h"

#define MAP_NAME(map, name, ...) [MAP_##map] = #name,
const char *const map_names[MAPS] = {OXP_MAPS(MAP_NAME)};

#define MAP_FORMAT(map, name, format) [MAP_##map] = format,
const uint32_t map_formats[MAPS] = {OXP_MAPS(MAP_FORMAT)};
