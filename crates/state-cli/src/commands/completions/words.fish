
# Completes names that only the store knows: stacks, addresses, revisions. The generated script above completes the rest.
function __statectl_words
    set -l line (commandline -opc)
    $line[1] __words -- $line[2..] 2>/dev/null
end
complete -c statectl -f -a '(__statectl_words)'
