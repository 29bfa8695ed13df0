#compdef plait
# zsh completion of plait; write it to a file _plait in a folder of $fpath
_plait() {
  local line files=
  # Words as the shell would pass them on: the home folder for ~, no quotes or backslashes.
  local -a before=("${(@)words[2,CURRENT-1]/#\~\//$HOME/}")
  before=("${(@Q)before}")
  local -a found whole wholehelp open openhelp
  found=("${(@f)$(${words[1]/#\~/$HOME} __complete zsh "${(@)before}" "${(Q)PREFIX}" 2>/dev/null)}")
  for line in $found; do
    case $line in
      :files) files=_files ;;
      :folders) files='_files -/' ;;
      *[=.]$'\t'*) open+=("${line%%$'\t'*}"); openhelp+=("${line/$'\t'/  -- }") ;;
      *) whole+=("${line%%$'\t'*}"); wholehelp+=("${line/$'\t'/  -- }") ;;
    esac
  done
  (( $#open )) && compadd -l -S '' -d openhelp -a open
  (( $#whole )) && compadd -l -d wholehelp -a whole
  if [[ -n $files ]]; then
    compset -P '*='
    ${=files}
    return
  fi
  (( $#open + $#whole ))
}
if [[ $funcstack[1] == _plait ]]; then _plait "$@"; else compdef _plait plait; fi
