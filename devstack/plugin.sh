#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# DevStack's plugin: stack.sh, unstack.sh and clean.sh source it with a mode
# and a phase. Which functions of DevStack it uses, and what they do, is in
# devstack/tests/contract.json. What is more than a call or two is in Python,
# lab/devstack.

# octavia_xdp_python COMMAND…: what the plugin does by Python, as root; it
# gets the plugin's variables and the caller's cloud (OS_…).
function octavia_xdp_python {
    local python=$OCTAVIA_XDP_BIN_DIR/python3
    [[ -x $python ]] || python=python3
    (
        export "${!OCTAVIA_XDP_@}" OCTAVIA_CONF
        OCTAVIA_XDP_TRANSPORT_URL=$(get_transport_url)
        OCTAVIA_XDP_DATABASE_URL=""
        if [[ $OCTAVIA_XDP_ROLE == all ]]; then
            OCTAVIA_XDP_DATABASE_URL=$(database_connection_url \
                "$OCTAVIA_XDP_DATABASE")
        fi
        export OCTAVIA_XDP_TRANSPORT_URL OCTAVIA_XDP_DATABASE_URL
        cd "$OCTAVIA_XDP_DIR" || exit
        sudo -E "$(type -P "$python")" -m lab.devstack "$@"
    )
}

# Whether the broker, the database and Octavia are on this host.
function octavia_xdp_has_control {
    [[ $OCTAVIA_XDP_ROLE == all ]]
}

function octavia_xdp_pre_install {
    if ! is_ubuntu; then
        die $LINENO "octavia-xdp-provider needs Debian's or Ubuntu's packages"
    fi
    if octavia_xdp_has_control && ! is_service_enabled rabbit; then
        die $LINENO "octavia-xdp-provider needs RabbitMQ: enable_service rabbit"
    fi
    # Other packages: devstack/files/debs/octavia-xdp-provider.
    if [[ $OCTAVIA_XDP_BUILD_HC == True ]] && ! type -P cargo > /dev/null; then
        # shellcheck disable=SC2086  # a list of words
        install_package $OCTAVIA_XDP_RUST_PACKAGES
    fi
}

function octavia_xdp_install {
    setup_develop "$OCTAVIA_XDP_DIR"
    make -C "$OCTAVIA_XDP_DIR/datapath" all
    if [[ $OCTAVIA_XDP_BUILD_HC == True ]]; then
        (
            cd "$OCTAVIA_XDP_DIR/hc-agent" || exit
            cargo build --release --locked
        )
    fi
    octavia_xdp_python check
}

function octavia_xdp_post_config {
    local definitions drivers
    octavia_xdp_has_control || return 0
    octavia_xdp_python configure
    # It has hashes of passwords. rabbitmqctl of root becomes that user.
    definitions=$(mktemp --suffix .json)
    octavia_xdp_python broker > "$definitions"
    sudo chown rabbitmq "$definitions"
    $OCTAVIA_XDP_RABBITMQCTL import_definitions "$definitions"
    sudo rm -f "$definitions"
    recreate_database "$OCTAVIA_XDP_DATABASE"
    "$OCTAVIA_XDP_BIN_DIR/octavia-xdp-manage" --config-file "$OCTAVIA_XDP_CONF" \
        database upgrade
    octavia_xdp_python register
    drivers=$(octavia_xdp_python drivers \
        "$(iniget "$OCTAVIA_CONF" api_settings enabled_provider_drivers)")
    iniset "$OCTAVIA_CONF" api_settings enabled_provider_drivers "$drivers"
    iniset "$OCTAVIA_CONF" api_settings default_provider_driver xdp
    # Or statuses fail users' changes (doc/source/install/installation.rst).
    # Older servers, and MySQL, take the part that they do not know for a
    # comment.
    iniset "$OCTAVIA_CONF" database connection_parameters \
        "init_command=SET @octavia=1 /*M!110602 , SESSION innodb_snapshot_isolation=OFF */"
}

function octavia_xdp_start {
    local services name user command
    octavia_xdp_python fabric
    services=$(octavia_xdp_python services)
    while IFS=$'\t' read -r name user command; do
        run_process "$name" "$command" "" "$user"
    done <<< "$services"
}

function octavia_xdp_extra {
    if octavia_xdp_has_control; then
        octavia_xdp_python user
        octavia_xdp_python networks
    fi
    octavia_xdp_start
    if octavia_xdp_has_control; then
        octavia_xdp_python flavors
    fi
}

function octavia_xdp_test_config {
    local options section name value
    if ! octavia_xdp_has_control || ! is_service_enabled tempest; then
        return 0
    fi
    options=$(octavia_xdp_python tempest)
    while IFS=$'\t' read -r section name value; do
        iniset "$TEMPEST_CONFIG" "$section" "$name" "$value"
    done <<< "$options"
}

function octavia_xdp_unstack {
    local name
    for name in $OCTAVIA_XDP_SERVICES; do
        stop_process "$name"
    done
    octavia_xdp_python fabric-down
}

# The servers may be gone by now: what they held goes with them.
function octavia_xdp_clean {
    local removals words drivers
    octavia_xdp_python clean
    octavia_xdp_has_control || return 0
    removals=$(octavia_xdp_python broker-removals)
    while read -r words; do
        # shellcheck disable=SC2086  # lists of words
        $OCTAVIA_XDP_RABBITMQCTL $words < /dev/null ||
            echo "RabbitMQ did not $words"
    done <<< "$removals"
    octavia_xdp_python database-drop ||
        echo "the database server did not drop $OCTAVIA_XDP_DATABASE"
    if [[ -e $OCTAVIA_CONF ]]; then
        drivers=$(octavia_xdp_python drivers-without \
            "$(iniget "$OCTAVIA_CONF" api_settings enabled_provider_drivers)")
        iniset "$OCTAVIA_CONF" api_settings enabled_provider_drivers "$drivers"
        # Octavia's own default.
        iniset "$OCTAVIA_CONF" api_settings default_provider_driver amphora
        iniset "$OCTAVIA_CONF" database connection_parameters ""
    fi
    sudo rm -f "$OCTAVIA_XDP_CONF"
    sudo rmdir --ignore-fail-on-non-empty "$(dirname "$OCTAVIA_XDP_CONF")" ||
        true
}

if is_service_enabled o-xdp; then
    case "$1 ${2:-}" in
        "stack pre-install")
            echo_summary "Preparing octavia-xdp-provider"
            octavia_xdp_pre_install
            ;;
        "stack install")
            echo_summary "Installing octavia-xdp-provider"
            octavia_xdp_install
            ;;
        "stack post-config")
            echo_summary "Configuring octavia-xdp-provider"
            octavia_xdp_post_config
            ;;
        "stack extra")
            echo_summary "Starting octavia-xdp-provider"
            octavia_xdp_extra
            ;;
        "stack test-config")
            echo_summary "Configuring tempest for octavia-xdp-provider"
            octavia_xdp_test_config
            ;;
        "unstack ")
            echo_summary "Stopping octavia-xdp-provider"
            octavia_xdp_unstack
            ;;
        "clean ")
            echo_summary "Cleaning up octavia-xdp-provider"
            octavia_xdp_clean
            ;;
    esac
fi
