#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Solves the cases of cases.txt and batches.txt and prints a table with published values next to ours; writes it to
# bench/results/ as CSV and Markdown. One process at a time, wall time including reading the file.
#
#   bench/run.sh [--quick] [--case TEXT] [--resume] [--output NAME] [--machine TEXT]
#
#   --quick         a few minutes: some of the budgets, shorter limits (about 25 minutes otherwise)
#   --case TEXT     only cases whose suite or name contains TEXT; writes nothing unless --output is given
#   --resume        keep the rows of bench/results/NAME.csv and solve only what is not in it: for runs in slices
#   --output NAME   write bench/results/NAME.csv and NAME.md (default: quick or full)
#   --machine TEXT  what to call this machine in the tables
#
#   CHECKMATE=build/checkmate   the program        THREADS=2   threads a solve may use
#   CKM_SHARED_DATA_DIR=../shared/data             where instances/ is, if anywhere
set -eu
LC_ALL=C
export LC_ALL

program=$0
quick=0 resume=0 only='' output='' machine="$(nproc 2>/dev/null || echo '?') cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
usage() {
    sed -n '3,17s/^# \{0,1\}//p' "$program"
}
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --resume) resume=1 ;;
    --case | --output | --machine)
        [ $# -ge 2 ] || { echo "bench: $1 needs a value" >&2; exit 2; }
        case $1 in --case) only=$2 ;; --output) output=$2 ;; *) machine=$2 ;; esac
        shift
        ;;
    -h | --help) usage; exit 0 ;;
    *) echo "bench: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

cd "$(dirname "$0")/.."
checkmate=${CHECKMATE:-build/checkmate}
data=${CKM_SHARED_DATA_DIR:-../shared/data}/instances
threads=${THREADS:-2}
[ -x "$checkmate" ] || { echo "bench: $checkmate is not there; run 'make' first, or set CHECKMATE" >&2; exit 1; }
if [ -z "$output" ] && [ -z "$only" ]; then
    [ $quick = 1 ] && output=quick || output=full
fi
if [ $resume = 1 ] && [ -z "$output" ]; then
    echo "bench: --resume with --case needs --output, the table to continue" >&2
    exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for helper in measure transformer_graph layered_graph; do
    ${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -O2 bench/$helper.c -o "$work/$helper"
done
reorders=$("$checkmate" solve --help | grep -c -- '--reorder' || true)
csv=$work/table.csv
kept=$work/kept.csv
: > "$kept"
if [ $resume = 1 ] && [ -r "bench/results/$output.csv" ]; then
    cp "bench/results/$output.csv" "$kept"
fi
echo 'suite,case,operators,budget,budget_bytes,status,overhead_percent,gap_percent,bound_covers,batch,batch_bound,first_feasible_s,near_final_s,total_s,peak_mb,target,met,published,found_by,proven_by' > "$csv"

# is_kept CASE BUDGET_LABEL: moves the row that --resume keeps into the table; false when there is none.
is_kept() {
    row=$(awk -v name="$1" -v label="$2" -v suite="$suite" -F'","|",|,"' '
        index($0, "\"" suite "\",\"" name "\",") == 1 || index($0, "\"" suite "\"," name ",") == 1 {
            n = split($0, f, ","); for (i = 1; i <= n; i++) if (f[i] == label) { print; exit } }' "$kept")
    [ -n "$row" ] && echo "$row" >> "$csv"
}

# whole: the table with the rows that --resume keeps and this run does not come to.
whole() {
    cat "$csv"
    awk 'NR == FNR { seen[$0] = 1; next } !($0 in seen)' "$csv" "$kept"
}

# Every row is on disk as soon as it is known, so that an interrupted run can be resumed.
save() {
    if [ -n "$output" ]; then
        mkdir -p bench/results
        whole > "$work/whole.csv"
        cp "$work/whole.csv" "bench/results/$output.csv"
    fi
}

# value KEY FILE: a member of the JSON object in the file; empty for null.
value() {
    sed -n 's/.*"'"$1"'": \("[^"]*"\|[^,}]*\).*/\1/p' "$2" | tr -d '"' | sed 's/^null$//'
}

# graph_file SPEC: makes the graph and prints its path; nothing when it cannot be had.
graph_file() {
    file=$work/$(echo "$1" | tr ':' '-').json
    if [ ! -f "$file" ]; then
        rest=${1#*:}
        case $1 in
        zoo:*) "$checkmate" graph "${rest%%:*}" --granularity layer --batch "${rest##*:}" -o "$file" >&2 ;;
        zoo-op:*)
            length=${rest#*:*:}
            [ "$length" != "$rest" ] || length=''
            model=${rest%":$length"}
            "$checkmate" graph "${model%%:*}" --batch "${model##*:}" ${length:+--sequence-length "$length"} -o "$file" >&2
            ;;
        chain:*) sh bench/chain_graph.sh "$rest" > "$file" ;;
        graphs:*) file=bench/graphs/$rest.json ;;
        transformer:*) "$work/transformer_graph" "$rest" > "$file" ;;
        layered:*) "$work/layered_graph" "${rest%%:*}" "${rest##*:}" > "$file" ;;
        file:*)
            if [ -r "$data/${rest%%:*}.json" ]; then
                file=$data/${rest%%:*}.json
            elif [ "$rest" != "${rest#*:}" ]; then
                # The published instance counts no parameters.
                whole=$(graph_file "zoo:${rest#*:}")
                sed 's/"fixed_bytes": *[0-9]*/"fixed_bytes": 0/' "$whole" > "$file"
            else
                return 0
            fi
            ;;
        esac
    fi
    echo "$file"
}

# describe FILE: operators, memory floor and peak, in bytes.
describe() {
    "$checkmate" graph "$1" | awk '$1 == "operators" { printf "%s ", $2 }'
    "$checkmate" solve "$1" --budget 100% --strategy checkpoint-all --json > "$work/facts" 2> "$work/facts.err" || true
    echo "$(value floor_bytes "$work/facts") $(value baseline_peak_bytes "$work/facts")"
}

# budgets SPEC FLOOR PEAK: one budget a line, as the command line takes it.
budgets() {
    case $1 in
    *%+*) echo "$1" | awk -F'%[+]' -v a="$2" -v b="$3" '{
              times = $2 == "" ? 1.1 : $2
              if (b * $1 / 100 >= times * a) print $1 "%"; else printf "%.0f\n", times * a }' ;;
    every) awk -v a="$2" -v b="$3" 'BEGIN { for (i = a; i <= b; i++) print i }' ;;
    range*) echo "$1" | awk -v a="$2" -v b="$3" '{
                n = $4; if ($2 == "all") for (k = 0; k < n; k++) list = list (k ? "," : "") k; else list = $2
                count = split(list, wanted, ",")
                for (i = 1; i <= count; i++) printf "%.0f\n", a + (b - a) * wanted[i] / (n - 1) }' ;;
    *) echo "$1" | tr ' ' '\n' ;;
    esac
}

# judge TARGET: yes or no (or nothing without a target), from the variables of the row.
judge() {
    awk -v target="$1" -v overhead="$overhead" -v gap="$gap" -v first="$first" -v near="$near" -v mb="$mb" \
        -v cost="$cost" -v optimum="${optimum:-}" 'BEGIN {
            v["overhead"] = overhead; v["gap"] = gap; v["first"] = first; v["near"] = near; v["mb"] = mb
            ok = 1
            n = split(target, t, " ")
            for (i = 1; i <= n; i++) {
                if (t[i] == "binomial") { ok = ok && cost != "" && cost + 0 <= optimum * 1.0001; continue }
                split(t[i], side, "<=")
                # To the digits in which the target is stated.
                ok = ok && v[side[1]] != "" && v[side[1]] + 0 <= side[2] + 0.00005
            }
            if (n > 0) print ok ? "yes" : "no" }'
}

row_format='%-22s %7s %9s  %-10s %10s %10s %-8s %8s %8s %8s %8s  %-4s %s\n'
heading() {
    printf '\n%s\n' "$1"
    # shellcheck disable=SC2059  # the format is ours
    printf "$row_format" case ops budget status overhead gap covers first near total MB met published
}

show() {
    # shellcheck disable=SC2059
    printf "$row_format" "$name" "$ops" "$label" "$status" "${overhead:--}" "${gap:--}" "$covers" "${first:--}" \
        "${near:--}" "$total" "$mb" "${met:--}" "$published"
}

# solve_case: one solve of $file under $budget; adds a row.
solve_case() {
    label=$budget
    case $label in
    *%) ;;
    *) label=$(awk -v b="$budget" -v peak="$peak" 'BEGIN {
           if (b < 10000) printf "%d B", b; else printf "%.1f%%", 100 * b / peak }') ;;
    esac
    if is_kept "$name" "$label"; then
        return 0
    fi
    # shellcheck disable=SC2086  # options are words
    figures=$("$work/measure" "$work/out" "$work/err" "$checkmate" solve "$file" --budget "$budget" \
        --time-limit "$seconds" --threads "$threads" --verbose --json $options)
    # shellcheck disable=SC2086
    set -- $figures
    total=$(printf '%.2f' "$1") code=$2 mb=$(awk -v k="$3" 'BEGIN { printf "%.0f", k * 1.024e-3 }')
    status='' overhead='' gap='' covers='' cost='' budget_bytes='' first='' near='' found_by='' proven_by=''
    if [ "$code" != 0 ] && [ "$code" != 3 ] && [ "$code" != 4 ]; then
        status="exit $code"
    else
        status=$(value status "$work/out") cost=$(value cost "$work/out") covers=$(value bound_covers "$work/out")
        found_by=$(value found_by "$work/out") proven_by=$(value proven_by "$work/out")
        budget_bytes=$(value budget_bytes "$work/out")
        overhead=$(value overhead "$work/out" | awk 'NF { printf "%.4f", 100 * $1 }')
        gap=$(value gap "$work/out" | awk 'NF { printf "%.4f", 100 * $1 }')
    fi
    if [ -n "$cost" ]; then
        # Seconds before each line since the process began; costs carry a prefix or a unit of time.
        times=$(awk -v unit="$(sed -n 's/.*"cost_unit": *"\([a-z]*\)".*/\1/p' "$file" | head -n 1)" -v final="$cost" '
            BEGIN {
                u[""] = u["MACs"] = 1; u["kMACs"] = 1e3; u["MMACs"] = 1e6; u["GMACs"] = 1e9; u["TMACs"] = 1e12
                u["PMACs"] = 1e15; u["EMACs"] = 1e18; u["ns"] = 1; u["us"] = 1e3; u["ms"] = 1e6; u["s"] = 1e9
                scale = unit == "us" ? 1e-3 : 1
            }
            { for (i = 2; i < NF; i++) if ($i == "cost" && $(i + 1) != "-") {
                if (first == "") first = $1
                if (near == "" && $(i + 1) * u[$(i + 2)] * scale <= final * 1.001) near = $1
                break } }
            END { printf "%s %s", first, near }' "$work/err")
        first=$(echo "$times" | awk '{ if ($1 != "") printf "%.2f", $1 }')
        near=$(echo "$times" | awk '{ if ($2 != "") printf "%.2f", $2 }')
        # A schedule that came without a line of progress came at the end.
        [ -n "$first" ] || first=$total
        [ -n "$near" ] || near=$total
    fi
    met=$(judge "$target")
    show
    echo "\"$suite\",\"$name\",$(echo "$ops" | tr -d ,),$label,$budget_bytes,$status,$overhead,$gap,$covers,,,$first,$near,$total,$mb,$target,$met,\"$published\",$found_by,$proven_by" >> "$csv"
    save
}

began=$(date +%s)
skipped=''
last_suite=''
while IFS='|' read -r suite name graph spec seconds quick_spec quick_seconds options target published <&3; do
    case $suite in '#'* | '') continue ;; esac
    case "$suite $name" in *"$only"*) ;; *) continue ;; esac
    if [ $quick = 1 ]; then
        [ "$quick_spec" != - ] || continue
        [ "$quick_spec" = = ] || spec=$quick_spec
        seconds=$quick_seconds
    fi
    case $options in
    *--reorder*)
        if [ "$reorders" = 0 ]; then
            skipped="$skipped$name with --reorder: this program has no such option\n"
            continue
        fi
        ;;
    esac
    file=$(graph_file "$graph")
    if [ -z "$file" ]; then
        skipped="$skipped$name at $spec: $data is not there\n"
        continue
    fi
    if [ "$suite" != "$last_suite" ]; then
        heading "$suite"
        last_suite=$suite
    fi
    # shellcheck disable=SC2046
    set -- $(describe "$file")
    ops=$1 floor=$2 peak=$3
    asked=$target
    for budget in $(budgets "$spec" "$floor" "$peak"); do
        target=$asked
        case $target in
        *binomial*)
            optimum=$(sh bench/chain_optimum.sh "${graph#*:}" "$budget")
            published=$(awk -v o="$optimum" -v n="${graph#*:}" 'BEGIN {
                printf "optimal binomial schedule %.4f", 100 * (o / (2 * n + 1) - 1) }')
            ;;
        esac
        solve_case
    done
done 3< bench/cases.txt

suite='Largest batch, 16 GB, one extra forward pass'
wanted=$(awk -F'|' -v suite="$suite" -v only="$only" -v quick=$quick '
    !/^#/ && index(suite " " $1, only) && (!quick || $3 != 0) { print $1 "|" (quick ? $3 : $2) "|" $4 "|" $5 }' \
    bench/batches.txt)
if [ -n "$wanted" ]; then
    printf '\n%s\n' "$suite"
    printf '%-22s %10s %10s %-10s %10s %8s %8s  %-4s %s\n' network batch 'at most' status overhead total MB met \
        'published: all / sqrt n or AP / greedy / integer program'
    while IFS='|' read -r name seconds target published <&3; do
        if is_kept "$name" "16 GB"; then
            continue
        fi
        # shellcheck disable=SC2046
        set -- $("$work/measure" "$work/out" "$work/err" "$checkmate" max-batch "$name" --granularity layer --memory 16GB \
            --compute-limit extra-forward --time-limit "$seconds" --threads "$threads" --json)
        total=$(printf '%.2f' "$1") mb=$(awk -v k="$3" 'BEGIN { printf "%.0f", k * 1.024e-3 }')
        status=$(value status "$work/out") batch=$(value max_batch "$work/out") most=$(value upper_bound "$work/out")
        overhead=$(value overhead "$work/out" | awk 'NF { printf "%.2f", 100 * $1 }')
        met=$(awk -v b="$batch" -v t="$target" 'BEGIN { print((b != "" && b + 0 >= t + 0) ? "yes" : "no") }')
        printf '%-22s %10s %10s %-10s %10s %8s %8s  %-4s %s\n' "$name" "$batch" "$most" "$status" "$overhead" "$total" \
            "$mb" "$met" "$published"
        echo "\"$suite\",$name,,16 GB,16000000000,$status,$overhead,,,$batch,$most,,,$total,$mb,batch>=$target,$met,\"$published\",," >> "$csv"
        save
    done 3<<END
$wanted
END
fi

printf '\noverhead and gap in percent, times in seconds from the start of the process, MB of the largest process;\n'
printf 'near: the incumbent is within 0.1 %% of the final one. %d s in all.\n' $(($(date +%s) - began))
# How time to the first schedule and memory grow over the transformers: least squares on logarithms.
growth=$(awk -F, 'function fit(y, what,    i, n, sx, sy, sxx, sxy) {
        for (i in y) { n++; sx += x[i]; sy += y[i]; sxx += x[i] * x[i]; sxy += x[i] * y[i] }
        if (n >= 3) printf "%s grows as n^%.2f (fitted to %d sizes). ", what, (n * sxy - sx * sy) / (n * sxx - sx * sx), n
    }
    /^"Transformers"/ { k = NF; for (i = 1; i <= NF; i++) if ($i == "50%") at = i
        # operators come before the budget; first and megabytes at fixed places after it
        if ($(at + 8) > 0 && $(at + 11) > 0) { x[++rows] = log($(at - 1)); t[rows] = log($(at + 8)); m[rows] = log($(at + 11)) } }
    END { fit(t, "Time to the first schedule"); fit(m, "memory") }' "$csv")
[ -z "$growth" ] || printf '%s\n' "Transformers at half of their peak: $growth"
[ -z "$skipped" ] || printf '\nSkipped:\n%b' "$skipped"
if [ -n "$output" ]; then
    save
    version="$("$checkmate" --version 2>/dev/null | head -n 1), commit $(git describe --always --dirty 2>/dev/null || echo unknown)"
    awk -v machine="$machine" -v version="$version" -v threads="$threads" -v skipped="$skipped" \
        -f bench/markdown.awk "bench/results/$output.csv" > "bench/results/$output.md"
    echo "written: bench/results/$output.csv, bench/results/$output.md"
fi
