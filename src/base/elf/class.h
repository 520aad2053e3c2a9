/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ELF_CLASS_H
#define MS_BASE_ELF_CLASS_H

/*
 * ELF's structures of both classes, read as those of 64 bits, in this machine's order of bytes.
 * Which class an object has is in its header; to what is read without one it is given as the bytes
 * of a word, 4 or 8.
 */

#include <elf.h>

#include "base/reader.h"
#include "base/status.h"

/* As the number of bytes of a word. */
static inline uint8_t ms_elf_word_bytes(const Elf64_Ehdr *head)
{
	return head->e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
}

/* Of a program header in an object of that class. */
static inline size_t ms_elf_segment_bytes(uint8_t word_bytes)
{
	return word_bytes == sizeof(uint64_t) ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
}

/* Of an entry of a dynamic section. */
static inline size_t ms_elf_dynamic_bytes(uint8_t word_bytes)
{
	return word_bytes == sizeof(uint64_t) ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
}

/* What a sum of addresses is in an object of that class. */
static inline ms_addr ms_elf_address(uint8_t word_bytes, ms_addr sum)
{
	return word_bytes == sizeof(sum) ? sum : (uint32_t)sum;
}

/* The header at @at; false when there is none, of either class. */
ms_must_check bool ms_elf_read_header(struct ms_reader from, ms_addr at, Elf64_Ehdr *ret);

/* The head->e_phnum program headers at @at. */
ms_must_check bool ms_elf_read_segments(struct ms_reader from, ms_addr at, const Elf64_Ehdr *head,
                                        Elf64_Phdr *ret);

/* Read @n entries of the dynamic section at @at; returns how many, from @at on, there were. */
ms_must_check size_t ms_elf_read_dynamic(struct ms_reader from, ms_addr at, uint8_t word_bytes,
                                         Elf64_Dyn *ret, size_t n);

/* Symbol @index of the table at @at. */
ms_must_check bool ms_elf_read_symbol(struct ms_reader from, ms_addr at, uint64_t index,
                                      uint8_t word_bytes, Elf64_Sym *ret);

/* @n words, at most MS_ELF_WORDS, of the loader's at @at. */
enum { MS_ELF_WORDS = 8 };
ms_must_check bool ms_elf_read_words(struct ms_reader from, ms_addr at, uint8_t word_bytes,
                                     uint64_t *ret, size_t n);

#endif
