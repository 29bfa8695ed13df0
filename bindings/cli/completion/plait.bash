# bash completion of plait; load it with: source <(plait completion bash)
_plait() {
  # readline splits words at = and :, which are part of ours.
  local rest=${COMP_LINE:0:COMP_POINT} word line cut= i
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $rest == [[:blank:]]* ]]; then
      rest=${rest#"${rest%%[![:blank:]]*}"}
      words+=("${rest:0:${#word}}")
    else
      words[-1]+=${rest:0:${#word}}
    fi
    rest=${rest:${#word}}
  done
  # Words before this one without their quotes. A word in quotes of both kinds keeps one kind.
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    word=${words[i]/#\~\//$HOME/}
    case $word in
      *\'*) words[i]=${word//\'/} ;;
      *\"*) words[i]=${word//[\"\\]/} ;;
      *) words[i]=${word//\\/} ;;
    esac
  done
  word=${words[-1]}
  local program=${words[0]/#\~/$HOME} found
  found=$("$program" __complete bash "${words[@]:1}" 2>/dev/null) || return
  # Only what follows the last of these characters is replaced.
  [[ $word == *=* && $COMP_WORDBREAKS == *=* ]] && cut=${word%"${word##*=}"}
  COMPREPLY=()
  local IFS=$'\n' offers
  mapfile -t offers <<<"$found"
  for line in "${offers[@]}"; do
    [[ -n $line ]] || continue
    case $line in
      :files | :folders)
        compopt -o filenames 2>/dev/null
        i=-f
        [[ $line == :folders ]] && i=-d
        COMPREPLY+=($(compgen $i -- "${word#*=}"))
        ;;
      *) COMPREPLY+=("${line#"$cut"}") ;;
    esac
  done
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _plait plait
