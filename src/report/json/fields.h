/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_FIELDS_H
#define MS_REPORT_JSON_FIELDS_H

/*
 * Which member of memscan.report/1 is which member of a struct: once, for the writer and
 * for the reader. What does not map one to one (lists, types, stacks) is theirs.
 *
 * To add a field: a row in fields.c, its line in docs/JSON.md and docs/memscan.schema.json.
 */

#include "engine/report.h"

enum ms_json_form {
	MS_JSON_UNSIGNED, /* of size bytes */
	MS_JSON_SIGNED,   /* the same */
	MS_JSON_BOOL,
	MS_JSON_ADDRESS, /* as a string */
	MS_JSON_TEXT,    /* char[size] */
	MS_JSON_NAME,    /* a byte that numbers one of the names */
};

/* Names by number; "" is written as nothing. */
struct ms_json_names {
	const char *const *at;
	size_t n;
};

struct ms_json_field {
	const char *key;
	enum ms_json_form form;
	bool optional; /* 0 and "" mean that it is not known, and are not written */
	size_t offset;
	size_t size;
	const struct ms_json_names *names;
};

struct ms_json_fields {
	const struct ms_json_field *at;
	size_t n;
};

/* In the order in which they are written. */
extern const struct ms_json_fields ms_json_host;        /* of struct ms_host_facts */
extern const struct ms_json_fields ms_json_process;     /* of struct ms_target_facts */
extern const struct ms_json_fields ms_json_machine;     /* the same, behind the command line */
extern const struct ms_json_fields ms_json_scan;        /* of struct ms_report */
extern const struct ms_json_fields ms_json_heap;        /* of struct ms_heap */
extern const struct ms_json_fields ms_json_sampling;    /* of struct ms_sampling */
extern const struct ms_json_fields ms_json_older;       /* of struct ms_older */
extern const struct ms_json_fields ms_json_totals;      /* of struct ms_totals */
extern const struct ms_json_fields ms_json_possible;    /* the same, of --possible */
extern const struct ms_json_fields ms_json_suppressed;  /* the same */
extern const struct ms_json_fields ms_json_unconfirmed; /* the same, of --confirm */
extern const struct ms_json_fields ms_json_unlisted;    /* of struct ms_unlisted */
extern const struct ms_json_fields ms_json_unlisted_possible; /* the same, of --possible */
extern const struct ms_json_fields ms_json_leak;              /* of struct ms_leak */
extern const struct ms_json_fields ms_json_reason;      /* the same, behind its contents and type */
extern const struct ms_json_fields ms_json_references;  /* the same, of an object of CPython */
extern const struct ms_json_fields ms_json_estimate;    /* of struct ms_estimate */
extern const struct ms_json_fields ms_json_maker;       /* of struct ms_maker, behind its module */
extern const struct ms_json_fields ms_json_live;        /* of struct ms_live */
extern const struct ms_json_fields ms_json_suppression; /* of struct ms_suppressed */

extern const struct ms_json_names ms_json_hows;
extern const struct ms_json_names ms_json_sures;   /* of enum ms_sure */
extern const struct ms_json_names ms_json_reasons; /* of enum ms_reason */

#endif
