#compdef glassback
# Completion of glassback for zsh. Printed by: glassback completion zsh

_glassback() {
	local reply line word
	local -a choices
	reply=$("${words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null) || return 1
	for line in "${(@f)reply}"; do
		word=${line%%$'\t'*}
		if [[ $word == :0 ]]; then
			compset -P '-*='
			_files
			return
		elif [[ $word == :* ]]; then
			continue
		elif [[ $line == *$'\t'* ]]; then
			choices+=("${word//:/\\:}:${line#*$'\t'}")
		elif [[ -n $word ]]; then
			choices+=("${word//:/\\:}")
		fi
	done
	compset -P '-*='
	_describe glassback choices
}

if (( ! $+functions[compdef] )); then
	autoload -Uz compinit && compinit
fi
compdef _glassback glassback
# In a directory of fpath, zsh loads this file at the first completion.
if [[ ${funcstack[1]} == _glassback ]]; then
	_glassback
fi
