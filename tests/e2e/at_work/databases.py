# SPDX-License-Identifier: Apache-2.0
"""Databases, asked by several clients at once."""

import signal
import subprocess

from at_work import NO_LOG, of, program


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


@program("mariadb", "mariadb-server", check=True)
def mariadb(place):
    socket = f"{place.folder}/socket"
    with place.start(place.command("mariadb-install-db"), "--no-defaults", f"--datadir={place.folder}/data",
                     "--auth-root-authentication-method=normal", "--skip-test-db", f"--user={place.user}",
                     env=NO_LOG) as made:
        assert made.finish(120) == 0, place.said()
    process = place.start(place.command("mariadbd"), "--no-defaults", f"--datadir={place.folder}/data",
                          f"--socket={socket}", "--skip-networking", f"--user={place.user}",
                          "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0")
    place.listens(socket)
    clients = [place.start(place.command("mariadb"), "--no-defaults", f"--socket={socket}", f"--user={place.user}",
                           "-N", "--unbuffered", env=NO_LOG, stdout=subprocess.PIPE) for _ in range(3)]

    def work(n, turn):
        said = clients[n].ask(f"""create database if not exists d{n}; use d{n};
            create or replace table t(a int auto_increment primary key, b varchar(200), c blob, index(b));
            insert into t(b, c) select concat('text ', seq), repeat(seq, seq % 30) from seq_1_to_3000;
            prepare p from 'select 0 where (select max(c) from t where b like ?) is null';
            set @b = '%t {turn % 10}%'; execute p using @b; deallocate prepare p;
            select 0 where 'x' = (select json_arrayagg(g) from
                (select group_concat(a order by c) as g from t group by left(b, 6)) as s);
            update t join t as u using (a) set t.b = upper(u.b) where t.a % 7 = 3;
            select count(distinct b), sum(length(c)) > 0 from t;
            drop database d{n};\n""")
        while said == "0":
            said = clients[n].line()
        assert said == "3000\t1", said
    place.busy(work, 3)
    yield of(process)
    place.end_work()
    for client in clients:
        client.finish()
    place.end(process, signal=signal.SIGTERM)
