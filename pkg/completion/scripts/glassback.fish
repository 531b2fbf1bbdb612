# Completion of glassback for fish. Printed by: glassback completion fish

function __glassback_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l reply (command $words[1] __complete $words[2..] "$last" 2>/dev/null)
    or return
    # In --NAME=VALUE, fish replaces the whole word.
    set -l name (string match -r -- '^-.*?=' "$last")
    if test "$reply[-1]" = :0
        __fish_complete_path (string replace -- "$name" '' "$last")
        return
    end
    for line in $reply[1..-2]
        printf '%s%s\n' "$name" "$line"
    end
end

complete -c glassback -f -a '(__glassback_complete)'
