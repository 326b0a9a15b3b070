#compdef @NAME@
# Use the bash completion: every Debian has bash, and one list of words is enough.
local -a offered
offered=("${(@f)$(bash -c '
    _get_comp_words_by_ref() {
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=("${COMP_WORDS[@]}")
    }
    . /usr/share/bash-completion/completions/@NAME@
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    @FUNCTION@
    printf "%s\n" "${COMPREPLY[@]}"' bash "${(@)words[1,CURRENT]}" 2>/dev/null)}")
compadd -- ${offered:#}
