# SPDX-License-Identifier: Apache-2.0
# Sourced by the experiments in this folder.
#
# Every experiment writes one CSV, a row as soon as it is known, and skips rows that are there: interrupt it as you like, start
# it again, and it continues. `--again TEXT` first removes the rows that contain TEXT, `--again all` every row. The first line of
# a CSV says what made it: program, processor, settings. Rows of another program, processor or setting do not count: the
# experiment begins anew.
#   CHECKMATE=build/checkmate          the program
#   PAPER_DIR=<next to it>/paper       graphs, profiles, PNG figures
#   PAPER_RESULTS=bench/results/paper  CSV files
#   PAPER_FIGURES=docs/figures         SVG figures
#   PAPER_SECONDS=5                    time limit of a solve
#   PAPER_LP_SECONDS=15                of a rounding of the relaxation, in table 2 and in its own study
#   PAPER_BATCH_SECONDS=60             time limit of a search for a batch by `auto`
#   PAPER_STAGES_SECONDS=25            time limit of an integer program in stages.sh
#   PAPER_DATA=../shared/data/instances  instances of the literature, where they are
set -eu
LC_ALL=C
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export LC_ALL OMP_WAIT_POLICY

cd "$(dirname "$0")/../.."
checkmate=${CHECKMATE:-build/checkmate}
if [ ! -x "$checkmate" ]; then
    echo "$0: $checkmate is not there; run 'make' first, or set CHECKMATE" >&2
    exit 1
fi
# The program and its library, by their content.
program=$({ echo "$checkmate"; ldd "$checkmate" 2> /dev/null | sed -n 's/.*libcheckmate[^ ]* => \([^ ]*\) .*/\1/p'; } \
    | tr '\n' '\0' | xargs -0 cat | sha256sum | cut -c 1-12)
# Unknown without git, or where git refuses the folder.
if [ -e .git ] && commit=$(git log -1 --format=%h 2> /dev/null); then
    git diff --quiet HEAD -- src include || commit="$commit with changes"
else
    commit=unknown
fi
pictures=${PAPER_DIR:-$(dirname "$checkmate")/paper}
work=$pictures/$program  # so that no graph or profile of another program is used
results=${PAPER_RESULTS:-bench/results/paper}
figures=${PAPER_FIGURES:-docs/figures}
seconds=${PAPER_SECONDS:-5}
lp_seconds=${PAPER_LP_SECONDS:-15}
batch_seconds=${PAPER_BATCH_SECONDS:-60}
stages_seconds=${PAPER_STAGES_SECONDS:-25}
instances=${PAPER_DATA:-../shared/data/instances}
machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -d ','), $(nproc) processors"
settings="$seconds s a solve, $lp_seconds s a rounding, $batch_seconds s a search for a batch, $stages_seconds s an integer program of the stages"
made_by="program $program; $machine; $settings"
mkdir -p "$work" "$results" "$figures"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 1' HUP INT TERM

# made_by_of CSV: what made its rows, but for the commit; empty if there are none or the file does not say.
made_by_of() {
    [ ! -s "$1" ] || sed -n '1s/^# commit [^;]*; //p' "$1"
}

# open_csv NAME HEADER ARGUMENTS...: the experiment's CSV in $csv; the arguments are those of the script.
open_csv() {
    csv=$results/$1.csv
    if [ "$(made_by_of "$csv")" != "$made_by" ]; then
        [ ! -s "$csv" ] || say "$csv: of another program, processor or setting; begun anew"
        printf '# commit %s; %s\n%s\n' "$commit" "$made_by" "$2" > "$csv"
    fi
    shift 2
    if [ "${1:-}" = --again ] && [ $# = 2 ]; then
        if [ "$2" = all ]; then
            sed -n 1,2p "$csv" > "$temporary/kept"
        else
            { sed -n 1,2p "$csv"; sed 1,2d "$csv" | grep -v -F -e "$2" || true; } > "$temporary/kept"
        fi
        cp "$temporary/kept" "$csv"
    elif [ $# -gt 0 ]; then
        echo "usage: $0 [--again TEXT|all]" >&2
        exit 2
    fi
    # A line that was cut short by an interruption does not count.
    if [ -n "$(tail -c 1 "$csv")" ]; then
        sed '$d' "$csv" > "$temporary/kept"
        cp "$temporary/kept" "$csv"
    fi
}

# known KEY: whether a row begins with KEY.
known() {
    grep -q "^$1" "$csv"
}

# add ROW
add() {
    echo "$1" >> "$csv"
}

# say TEXT: progress.
say() {
    printf '%s\n' "$1" >&2
}

# value KEY FILE: a member of a JSON object; empty for null.
value() {
    sed -n 's/.*"'"$1"'": \("[^"]*"\|[^,}]*\).*/\1/p' "$2" | head -n 1 | tr -d '"' | sed 's/^null$//'
}

# layer_graph NETWORK BATCH COSTS: the paper's graph of a network as a file, made once; prints its name.
layer_graph() {
    graph=$work/$1-$2-$(echo "$3" | tr ':/' '--').json
    [ -s "$graph" ] || "$checkmate" graph "$1" --granularity layer --batch "$2" --costs "$3" -o "$graph" > /dev/null
    echo "$graph"
}

# describe FILE: floor and peak without rematerialization, in bytes.
describe() {
    "$checkmate" solve "$1" --budget 100% --strategy checkpoint-all --json > "$temporary/facts" 2> /dev/null || true
    echo "$(value floor_bytes "$temporary/facts") $(value baseline_peak_bytes "$temporary/facts")"
}

# What all figures share: light axes and grid; colours are those of Okabe and Ito.
style='set border 3 linecolor rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set grid linecolor rgb "#dddddd" linetype 1
bound = "#D55E00"'

# bound_class CLASS...: the schedules for which bounds of these classes hold together: those of the narrowest.
bound_class() {
    case " $* " in
    *' frontier '*) echo 'schedules that advance by stages' ;;
    *' order '*) echo "schedules in the graph's order" ;;
    *' any '*) echo 'all schedules' ;;
    *) echo "schedules of the solver's class" ;;
    esac
}

# draw NAME SCRIPT: runs gnuplot for $figures/NAME.svg and $pictures/NAME.png; SCRIPT has everything but terminal and output.
# $size: "width,height" in pixels.
draw() {
    if ! command -v gnuplot > /dev/null; then
        say "$1: no figure, gnuplot is not there"
        return 0
    fi
    printf 'set terminal svg size %s dynamic font "DejaVu Sans,12" background "#ffffff"\nset output "%s"\n' "$size" \
        "$figures/$1.svg" | cat - "$2" | gnuplot
    printf 'set terminal pngcairo size %s font "DejaVu Sans,12" background "#ffffff"\nset output "%s"\n' "$size" \
        "$pictures/$1.png" | cat - "$2" | gnuplot
    say "figures: $figures/$1.svg, $pictures/$1.png"
}
