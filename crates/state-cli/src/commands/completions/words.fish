
# Names that only the store knows: stacks, addresses, revisions. All else is completed above.
function __statectl_words
    set -l line (commandline -opc)
    $line[1] __words -- $line[2..] 2>/dev/null
end
complete -c statectl -f -a '(__statectl_words)'
