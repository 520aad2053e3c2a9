# SPDX-License-Identifier: Apache-2.0
# A repository of its own: commits, a merge, gc, clone, log, fsck.
set -e
export HOME=$PWD GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@localhost
git -c init.defaultBranch=main init -q r
cd r
for i in 1 2 3 4 5 6 7 8; do
	for j in 1 2 3 4 5; do seq $((i * j)) $((i * j + 300)) > "file$j"; done
	git add .
	git commit -q -m "commit $i"
done
git checkout -q -b side HEAD~3
echo more > other
git add other
git commit -q -m side
git checkout -q main
git merge -q -m merged side
git gc -q --aggressive
git fsck --strict
git log --graph --stat --format='%H %s' -p | sha1sum
git blame file3 | sha1sum
cd ..
git clone -q r copy
git -C copy rev-parse HEAD
git -C copy grep -c 300
git -C copy status --short
git -C r archive HEAD | sha1sum
rm -rf r copy
