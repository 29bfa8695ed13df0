# fish completion of plait; load it with: plait completion fish | source

# A word that is still being typed, as the command will get it: without quotes and backslashes.
function __plait_unquoted --argument-names word
    for rest in '' "'" '"'
        string unescape -- "$word$rest" 2>/dev/null && return
    end
    # A backslash at the end has nothing to escape yet.
    string unescape -- (string replace -r '\\\\$' '' -- $word) 2>/dev/null || echo -- $word
end

# Files and folders that begin with `path`; key stands before each: "model.load=".
function __plait_paths --argument-names kind key path
    set -l home (string match -r '^~(?=/)' -- $path)
    set -l whole (string replace -r '^~(?=/)' -- "$HOME" $path)
    for at in $whole*
        set -l shown $at
        test -n "$home" && set shown "~"(string sub -s (math (string length -- "$HOME") + 1) -- $at)
        if test -d $at
            echo -- "$key$shown/"
        else if test $kind != ':folders'
            echo -- "$key$shown"
        end
    end
end

function __plait_complete
    # The home folder for ~, as the shell would pass it on.
    set -l words (string replace -r '^~(?=/)' -- "$HOME" (commandline -opc))
    set -l word (__plait_unquoted (commandline -ct))
    for line in ($words[1] __complete fish $words[2..] "$word" 2>/dev/null)
        switch $line
            case ':files' ':folders'
                set -l key (string match -r '^[^=]*=' -- $word)
                __plait_paths $line "$key" (string replace -r '^[^=]*=' '' -- $word)
            case '*'
                echo -- $line
        end
    end
end
complete -c plait -f -a '(__plait_complete)'
