# SPDX-License-Identifier: Apache-2.0
# bash completion of sumac. The command itself is asked what there is.
_sumac() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words
  # --option=VALUE comes as three words
  [ "$word" = = ] && word=
  [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
  case $before in
  --acc) words=$(sumac info | sed -n 's/^accumulators //p') ;;
  --dtype | --out-dtype) words=$(sumac info | sed -n 's/^dtypes *//p') ;;
  --format) words='auto npy npz safetensors raw text' ;;
  --header) words='auto yes no' ;;
  *)
    if [ "$COMP_CWORD" -eq 1 ]; then
      words="$(sumac info | sed -n 's/^operations *//p') stats info demo help --version"
    elif [ "${word#-}" != "$word" ]; then
      words=$(sumac "${COMP_WORDS[1]}" --help 2>/dev/null | grep -o -E '(^| )--[a-z-]+')
    fi
    ;;
  esac
  if [ -n "${words-}" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _sumac sumac
