/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/threads.h"

#include <string.h>

#include "target/proc.h"

static void name_thread(struct ms_spot *spot)
{
	if (spot->kind != MS_ROOT_STACK && spot->kind != MS_ROOT_TLS &&
	    spot->kind != MS_ROOT_REGISTER)
		return;
	memset(spot->thread, 0, sizeof(spot->thread));
	if (spot->tid > 0)
		ms_proc_name(spot->tid, spot->thread, sizeof(spot->thread));
}

void ms_name_threads(struct ms_report *report)
{
	struct ms_findings *answer = &report->answer;
	struct ms_answer_chain *chain;
	struct ms_retained_root *root;
	struct ms_subject *subject;

	ms_vec_for_each (chain, &answer->chains)
		name_thread(&chain->root);
	ms_vec_for_each (subject, &answer->subjects)
		name_thread(&subject->spot);
	ms_vec_for_each (root, &report->retained.roots)
		name_thread(&root->spot);
}
