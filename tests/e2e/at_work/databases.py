# SPDX-License-Identifier: Apache-2.0
"""Databases, asked by several clients at once."""

from at_work import of, program


@program("sqlite3", "sqlite3", check=True)
def sqlite3(place):
    process = place.start(place.command("sqlite3"), "-batch", f"{place.folder}/data")

    def say(text):
        process.popen.stdin.write(text.encode())
        process.popen.stdin.flush()

    def work(_, turn):
        if turn % 10 == 0:
            say("drop table if exists t; create table t(a integer primary key, b text, c);\n")
        say(f"""begin;
            with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
            insert into t(b, c) select 'text ' || i, randomblob(i % 300) from n;
            commit; create index if not exists tb on t(b); select b from t where b = 'text {turn}';
            select count(*), sum(length(c)), group_concat(a % 10) from t group by b order by 2 desc limit 3;
            select json_group_array(json_object('a', a, 'b', upper(b))) from t where a < 500;
            update t set c = replace(b, 'e', 'E') where a % 3 = {turn % 3}; vacuum;\n""")
    say("pragma journal_mode = memory; pragma synchronous = off;\n")
    place.busy(work)
    yield of(process)
    place.end(process)
