# Read by the script `make` of each review, with its own arguments: [--twins] OUT.
# Sets twins (empty without --twins), out (a folder that exists), published and dutlab.
twins=
[ "${1:-}" != --twins ] || { twins=1; shift; }
[ $# = 1 ] || { echo "usage: $0 [--twins] OUT" >&2; exit 2; }
dutlab=${DUTLAB:-dutlab}
PATH=$PATH:$here/../../../.venv/bin # where `make build` puts it
command -v "${dutlab%% *}" >/dev/null || { echo "$0: no command $dutlab: put it on PATH, or name it in DUTLAB" >&2; exit 127; }
[ -z "$twins" ] || [ "$(id -u)" = 0 ] || { echo "$0: twins need root: their labs are network namespaces" >&2; exit 1; }
published=$here/../../published
mkdir -p -- "$1"
out=$(cd -- "$1" && pwd)
export DUTLAB_DISTURBED="${DUTLAB_DISTURBED:-count}" # a busy machine disturbs trials of twins; they count, each with its doubt

imported() { # FILE RUNS OPTIONS…: imports published figures; the command's output shows only if it fails
    file=$1 runs=$2; shift 2
    words=$($dutlab import figures "$published/$file" "$@" --runs "$runs" 2>&1) || { echo "$words" >&2; exit 1; }
}
measured() { # FILE OPTIONS…: measures a twin
    $dutlab run "$@" --unattended --yes
}
