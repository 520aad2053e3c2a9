# SPDX-License-Identifier: Apache-2.0
# Many forks, pipes, subshells, traps and a background job.
${SIGNAL:+eval 'kill -$SIGNAL $$'}
trap 'echo trapped' USR1
for i in $(seq 60); do a[i]=$(echo "$i" | sed s/1/one/ | tr a-z A-Z); done
echo "${a[@]}"
declare -A seen
for ((i = 0; i < 4000; i++)); do seen[$((i % 100))]+=$i; t=${seen[7]//7/x}; done
echo ${#t} ${#seen[@]}
(exit 3) & wait $!; echo $?
kill -USR1 $$
while read -r line; do set -- $line; echo "$2"; done < <(printf 'a %d\n' 1 2 3)
cat <<< "${a[*]:3:4}"
for i in 1 2 3; do (for j in 1 2 3; do echo $((i * j)) & wait; done); done
printf '%s\n' "${!seen[@]}" | sort -n | tail -1
exit 5
