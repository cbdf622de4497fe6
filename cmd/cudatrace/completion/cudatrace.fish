# Completes command lines of cudatrace in fish. Made by: cudatrace completion fish

function __cudatrace_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] complete-words $words[2..-1] "$current" 2>/dev/null)
    set -l offer (string split ' ' -- $lines[1])
    switch "$offer[1]"
        case words
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
        case files
            if test (count $offer) -eq 1
                __fish_complete_path "$current"
            else
                set -l files (__fish_complete_path "$current" | string replace -r "\t.*" "")
                string match -- '*/' $files
                for kind in $offer[2..-1]
                    string match -- "*.$kind" $files
                end
            end
        case folders
            __fish_complete_directories "$current"
        case program
            set -l first (math $offer[2] + 2)
            complete -C (string join ' ' -- (string escape -- $words[$first..-1]) "$current")
    end
end

complete -c cudatrace -f -a '(__cudatrace_complete)'
