# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The functions that DevStack gives plugins, as far as the plugin uses them,
# for the harness (lab/devstack/trial.py): devstack/tests/contract.json says what
# each does in DevStack. Here each call is recorded, in $HARNESS_RECORD; what
# a phase needs happens for real, on the lab's servers; packages are not
# installed. Nothing else of DevStack is there: a call of another function
# ends the phase.

declare -A GITDIR
ENABLED_SERVICES=${ENABLED_SERVICES:-}

function _harness_record {
    printf '%s\n' "$*" >> "$HARNESS_RECORD"
}

function die {
    _harness_record die "$@"
    echo "line $1: ${*:2}" >&2
    exit 1
}

function echo_summary {
    _harness_record echo_summary "$@"
    echo "$@"
}

function define_plugin {
    _harness_record define_plugin "$@"
}

function plugin_requires {
    _harness_record plugin_requires "$@"
}

function enable_service {
    local service
    _harness_record enable_service "$@"
    for service in "$@"; do
        is_service_enabled "$service" || ENABLED_SERVICES+=",$service"
    done
}

function is_service_enabled {
    local service
    for service in "$@"; do
        [[ ,$ENABLED_SERVICES, == *",$service,"* ]] && return 0
    done
    return 1
}

function is_ubuntu {
    [[ ${HARNESS_DISTRIBUTION:-debian} == debian ]]
}

function get_python_exec_prefix {
    echo "$HARNESS_BIN_DIR"
}

function install_package {
    _harness_record install_package "$@"
}

function setup_develop {
    _harness_record setup_develop "$@"
    [[ -e $1/setup.cfg ]] || die $LINENO "$1 is no project"
}

function _harness_python {
    "$HARNESS_BIN_DIR/python3" "$@"
}

function iniget {
    _harness_python - "$@" << 'PYTHON'
import configparser, sys
file, section, option = sys.argv[1:]
content = configparser.RawConfigParser(strict=False)
content.read(file)
print(content.get(section, option, fallback=''))
PYTHON
}

function iniset {
    _harness_record iniset "$@"
    _harness_python - "$@" << 'PYTHON'
import configparser, sys
file, section, option, value = sys.argv[1:]
content = configparser.RawConfigParser(strict=False)
content.read(file)
if section != 'DEFAULT' and not content.has_section(section):
    content.add_section(section)
content.set(section, option, value)
with open(file, 'w') as written:
    content.write(written)
PYTHON
}

function get_transport_url {
    echo "$HARNESS_TRANSPORT_URL"
}

function database_connection_url {
    echo "${HARNESS_DATABASE_URL/DATABASE/$1}"
}

function recreate_database {
    _harness_record recreate_database "$@"
    _harness_python - "$HARNESS_DATABASE_URL" "$1" << 'PYTHON'
import sys
import sqlalchemy
url = sqlalchemy.engine.make_url(sys.argv[1]).set(database='')
with sqlalchemy.create_engine(url).begin() as connection:
    for words in ('DROP DATABASE IF EXISTS', 'CREATE DATABASE'):
        connection.execute(sqlalchemy.text(f'{words} `{sys.argv[2]}`'))
PYTHON
}

# run_process SERVICE COMMAND [GROUP] [USER]: what systemd would run.
function run_process {
    local unit=$HARNESS_UNITS/devstack@$1.service
    _harness_record run_process "$@"
    is_service_enabled "$1" || return 0
    [[ $2 == /* ]] || die $LINENO "$1: the command has no absolute path: $2"
    [[ $2 != *sudo* && $2 != *uwsgi* ]] ||
        die $LINENO "$1: not under systemd: $2"
    [[ ! -e $unit.pid ]] || die $LINENO "$1 runs already"
    printf '[Service]\nUser=%s\nExecStart=%s\n' "${4:-stack}" "$2" > "$unit"
    # systemd takes words as a shell does, without its variables.
    [[ $2 != *[\$\`%]* ]] || die $LINENO "$1: systemd would expand: $2"
    eval "setsid $2" >> "$HARNESS_UNITS/$1.log" 2>&1 < /dev/null &
    echo $! > "$unit.pid"
}

function stop_process {
    local unit=$HARNESS_UNITS/devstack@$1.service pid
    _harness_record stop_process "$@"
    if is_service_enabled "$1" && [[ -e $unit.pid ]]; then
        pid=$(< "$unit.pid")
        kill "$pid" 2> /dev/null || true
        timeout 60 tail --pid="$pid" -f /dev/null || kill -KILL "$pid"
        rm -f "$unit" "$unit.pid"
    fi
}

# Already root; options of sudo are for what root gets of the environment.
function sudo {
    while [[ $1 == -* ]]; do
        shift
    done
    "$@"
}

# harness_phase PLUGIN MODE [PHASE]: as run_phase does it.
function harness_phase {
    local plugin=$1
    GITDIR["octavia-xdp-provider"]=${plugin%/devstack}
    # shellcheck disable=SC1091
    {
        source "$plugin/override-defaults"
        source "$plugin/settings"
        case $2 in
            override_defaults | source) ;;
            *) source "$plugin/plugin.sh" "${@:2}" ;;
        esac
    }
}
