#!/bin/sh
# completion.sh NAME PROGRAM: print the bash completion of a program.
set -eu
if [ "$1" = computectl ]; then
    exec "$2" complete
fi
options=$("$2" --help | grep -oE -- '--[a-z][a-z-]+' | sort -u | tr '\n' ' ')
function=_$(echo "$1" | tr - _)
cat <<BASH
$function()
{
  COMPREPLY=( \$(compgen -W '$options' -- "\${COMP_WORDS[COMP_CWORD]}") )
}
complete -o default -F $function $1
BASH
