
# Names that only the store knows: stacks, addresses, revisions. All else is completed above.
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
