
# Completes names that only the store knows: stacks, addresses, revisions. The generated script above completes the rest.
_statectl_words() {
    local cur="${COMP_WORDS[COMP_CWORD]}" names word
    if [[ $cur == -* ]] ||
        ! names=$("${COMP_WORDS[0]}" __words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null); then
        _statectl "$@"
        return
    fi
    COMPREPLY=()
    while IFS= read -r word; do
        # `compgen -W` is unsafe here: it would execute command substitutions in a name.
        if [[ -n $word && $word == "$cur"* ]]; then
            printf -v word '%q' "$word"
            COMPREPLY+=("$word")
        fi
    done <<<"$names"
}
complete -F _statectl_words -o nosort -o bashdefault -o default statectl 2>/dev/null ||
    complete -F _statectl_words -o bashdefault -o default statectl
