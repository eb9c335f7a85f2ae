#!/bin/sh
# fetch_pictures.sh FOLDER: cut-outs and photographs for the demonstration, from Debian packages, without root.
# tuxpaint-stamps-default (GPL-2) and mate-backgrounds (GPL-2, CC-BY-SA): kept in the cache, never committed.
# Where apt-get is missing or fails, FOLDER stays empty and the demonstration says how few pictures it has.
set -u
folder=$1
mkdir -p "$folder"
if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
    packages=$(mktemp -d)
    trap 'rm -rf "$packages"' EXIT
    for package in tuxpaint-stamps-default mate-backgrounds; do
        if (cd "$packages" && { apt-get download -qq "$package" || { apt-get update -qq && apt-get download -qq "$package"; }; }); then
            dpkg -x "$packages/$package"_*.deb "$folder"
        else
            echo "fetch_pictures: $package could not be had; going on without it" >&2
        fi
    done
else
    echo "fetch_pictures: no apt-get here; going on with the pictures inside the installed packages" >&2
fi
touch "$folder/.fetched"
