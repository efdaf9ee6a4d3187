
# Names that only the store knows: stacks, addresses, revisions. All else is completed above.
_statectl_words() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" before="" kind="" word i
    local -a flags=()
    ((COMP_CWORD > 1)) && before="${COMP_WORDS[COMP_CWORD-2]}"
    case "$before $prev" in
        *" --stack" | *" --to-stack" | "stack rm" | "stack rename") kind=stacks ;;
        *" show" | *" --around") kind=addresses ;;
        *" rollback" | *" --rev" | *" --at") kind=revisions ;;
    esac
    if [[ -z $kind || $cur == -* ]]; then
        _statectl "$@"
        return
    fi
    for ((i = 1; i + 1 < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            --backend | --profile | --stack) flags+=("${COMP_WORDS[i]}" "${COMP_WORDS[i+1]}") ;;
        esac
    done
    COMPREPLY=()
    while IFS= read -r word; do
        # Never through `compgen -W`: that would run what a name holds as a command.
        if [[ $word == "$cur"* ]]; then
            printf -v word '%q' "$word"
            COMPREPLY+=("$word")
        fi
    done < <("${COMP_WORDS[0]}" "${flags[@]}" __words "$kind" 2>/dev/null)
}
complete -F _statectl_words -o nosort -o bashdefault -o default statectl 2>/dev/null ||
    complete -F _statectl_words -o bashdefault -o default statectl
