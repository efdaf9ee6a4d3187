
# Completes names that only the store knows: stacks, addresses, revisions. The generated script above completes the rest.
_statectl_words() {
    local names
    if [[ $PREFIX == -* ]] ||
        ! names=$("${(Q)words[1]}" __words -- "${(@Q)words[2,CURRENT-1]}" 2>/dev/null); then
        _statectl "$@"
    elif [[ -n $names ]]; then
        compadd -- "${(@f)names}"
    fi
}
compdef _statectl_words statectl
