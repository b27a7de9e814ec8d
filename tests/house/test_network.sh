#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What apt, debootstrap and pip say when the network lacks something is told from what they and others say when this tree is at fault.
set -eu
cd "$CKM_SOURCE_DIR"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. scripts/network.sh
failed=0
fail() {
    echo "FAIL: $*"
    failed=1
}
# Each line as the tools write it (apt 2.6 and 3.0, debootstrap 1.0.128, pip 24 and 25).
while read -r line; do
    printf 'before\n%s\nafter\n' "$line" >"$scratch/log"
    network_lacks "$scratch/log" && [ "$lacking" = "$line" ] || fail "not seen as the network's: $line"
done <<'END'
E: Failed to fetch http://mirror/debian/pool/main/c/cmake/cmake_3.31.6-2_amd64.deb  404  Not Found [IP: 192.0.2.1 80]
E: Failed to fetch http://mirror/debian/dists/trixie/InRelease  Could not connect to mirror:80 (192.0.2.1), connection timed out
W: Failed to fetch http://mirror/debian/dists/trixie/InRelease  Temporary failure resolving 'mirror'
E: Failed to fetch store:/var/lib/apt/lists/partial/mirror_dists_trixie_main_binary-amd64_Packages.xz  Hash Sum mismatch
E: Couldn't download packages: libc6 libgcc-s1
E: Failed getting release file http://mirror/debian/dists/trixie/Release
pip._vendor.requests.exceptions.ConnectionError: HTTPSConnectionPool(host='mirror', port=443): Max retries exceeded with url: /simple/torch/
ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='mirror', port=443): Max retries exceeded with url: /torch.whl
pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='mirror', port=443): Read timed out.
ERROR: Could not find a version that satisfies the requirement torch==2.14.1 (from versions: none)
ERROR: No matching distribution found for torch==2.14.1
ERROR: HTTP error 503 while getting https://mirror/torch.whl
END
while read -r line; do
    printf '%s\n' "$line" >"$scratch/log"
    ! network_lacks "$scratch/log" || fail "seen as the network's: $line"
done <<'END'
E: Unable to locate package libdnnl-old-dev
E: Package 'libdnnl-dev' has no installation candidate
src/run/cpu/dnnl_conv.c:10:5: error: implicit declaration of function 'dnnl_primitive_desc_create_v2'
ERROR: Cannot install numpy==2.4.6 and torch==2.6.0 because these package versions have conflicting dependencies.
ERROR: Failed building wheel for checkmate
WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<pip>: Failed to establish a new connection')': /simple/torch/
ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device
E   AssertionError: connection refused
98% tests passed, 3 tests failed out of 323
END
# Below a build of its own pip indents what it says.
printf '      ERROR: No matching distribution found for scikit-build-core>=0.11\n' >"$scratch/log"
network_lacks "$scratch/log" || fail "what a build lacks is not seen"
# In the log of a whole `make test` the words count only where the set-up gave up.
printf '%s\n' 'E: Failed to fetch http://mirror/x.deb  404  Not Found' 'setup.sh: apt-get could not install them; install them and run again: apt-get install x' >"$scratch/log"
set_up_lacks "$scratch/log" || fail "a set-up without its packages is not seen"
printf '%s\n' 'E: Failed to fetch http://mirror/x.deb  404  Not Found' '98% tests passed, 3 tests failed out of 323' >"$scratch/log"
! set_up_lacks "$scratch/log" || fail "a failed test is taken for the network's"
printf '%s\n' 'E: Unable to locate package x' 'setup.sh: apt-get could not install them; install them and run again: apt-get install x' >"$scratch/log"
! set_up_lacks "$scratch/log" || fail "a package that the suite has not is taken for the network's"
exit $failed
