# fish completion of plait; load it with: plait completion fish | source
function __plait_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    for line in ($words[1] __complete fish $words[2..] "$word" 2>/dev/null)
        switch $line
            case ':files' ':folders'
                set -l key (string match -r '^[^=]*=' -- $word)
                set -l path (string replace -r '^[^=]*=' '' -- $word)
                if test $line = ':folders'
                    __fish_complete_directories "$path" ''
                else
                    for file in (__fish_complete_path "$path" '')
                        echo -- "$key$file"
                    end
                end
            case '*'
                echo -- $line
        end
    end
end
complete -c plait -f -a '(__plait_complete)'
