/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the interface without preprocessor lines, for bindings. */
	.section .rodata
	.global oxp_api_header
	.type oxp_api_header, %object
oxp_api_header:
	.incbin API_HEADER
	.byte 0
	.size oxp_api_header, . - oxp_api_header
	.section .note.GNU-stack, "", %progbits
