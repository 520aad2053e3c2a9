# SPDX-License-Identifier: Apache-2.0
#
# To be read by a script: apt for another Debian suite. Sets $suite and $dir before it
# calls these, and has a die().
#
# apt runs on directories of its own under $dir/apt; the machine's lists, sources and
# package database are neither read nor written. Its dpkg database is an empty file, so
# that apt itself works out the whole closure of what is asked for.
#
# The archive is the one that the machine's own apt is configured for, or what
# GLIBC_ARCHIVE says: the address in whose dists/ the suites are.

# Where the machine's packages come from: Debian's own archive first, if the
# lists are there to tell it from others; every other one may be a copy of it.
archives()
{
	test -z "${GLIBC_ARCHIVE-}" || { echo "${GLIBC_ARCHIVE%/}" && return; }
	{
		apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
			'Origin: Debian' 'Label: Debian' 'Component: main' || :
		apt-get -q --print-uris update |
			sed -n "s|^'\\(.*\\)/dists/[^']*/InRelease'.*|\\1|p"
	} 2>/dev/null | sed 's|/*$||' | awk '!seen[$0]++'
}

source_of()
{
	echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 $suite main"
}

apt()
{
	apt-get -q -y -c "$dir/apt/apt.conf" "$@"
}

configure()
{
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial" "$dir/apt/parts"
	: >"$dir/apt/status"
	cat >"$dir/apt/apt.conf" <<-END
		Dir::State "$dir/apt";
		Dir::State::lists "$dir/apt/lists";
		Dir::State::status "$dir/apt/status";
		Dir::Cache "$dir/apt";
		Dir::Cache::archives "$dir/apt/archives";
		Dir::Etc::sourcelist "$dir/apt/sources.list";
		Dir::Etc::sourceparts "$dir/apt/parts";
		Dir::Etc::preferences "$dir/apt/preferences";
		Dir::Etc::preferencesparts "$dir/apt/parts";
		APT::Architecture "amd64";
		APT::Architectures { "amd64"; };
		APT::Get::AllowUnauthenticated "false";
		APT::Install-Recommends "false";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::Retries "3";
		Acquire::Check-Valid-Until "false";
		Dpkg::Use-Pty "0";
	END
	# clear lists that make an example of the machine's hooks
	cat >>"$dir/apt/apt.conf" <<-END
		#clear DPkg::Post-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	END
}

update()
{
	: >"$dir/apt/update.log"
	for url in $(archives); do
		source_of "$url" >"$dir/apt/sources.list"
		# any error counts: apt-get alone goes on with half the lists
		apt -o APT::Update::Error-Mode=any update >>"$dir/apt/update.log" 2>&1 && return 0
	done
	cat "$dir/apt/update.log" >&2
	die "no lists for $suite; GLIBC_ARCHIVE=ADDRESS names an archive that has it"
}
