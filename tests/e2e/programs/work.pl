# SPDX-License-Identifier: Apache-2.0
use strict;
use warnings;
kill $ENV{SIGNAL}, $$ if $ENV{SIGNAL};
my %seen;
$seen{$_ % 777} .= "v$_," for 1 .. 40000;
my $joined = join "", map { "$_=$seen{$_};" } sort { $a <=> $b } keys %seen;
(my $changed = $joined) =~ s/v(\d)(\d*)/$2-$1/g;
print length $joined, " ", unpack("%32C*", $changed), "\n";
my @children = map { my $n = $_; my $pid = fork; exit($n * 2) unless $pid; $pid } 1 .. 8;
for (@children) { waitpid $_, 0; print $? >> 8, " "; }
print `echo from a shell`, eval { die "told\n" } // $@;
local $SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; my @some; while (1) { push @some, "x" x (@some % 5000); @some = () if @some > 500; } };
print $@;
exit 9;
