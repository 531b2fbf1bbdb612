# Completion of glassback for bash 3.2 and later. Printed by: glassback completion bash

_glassback() {
	local line=${COMP_LINE:0:COMP_POINT} last reply word colon
	local -a words
	read -ra words <<<"$line"
	if [[ $line == *[[:space:]] ]]; then words+=(""); fi
	last=${words[${#words[@]} - 1]}
	COMPREPLY=()
	reply=$("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null) || return 0
	while IFS=$'\t' read -r word _; do
		if [[ $word == :* ]]; then
			# :0 lets bash offer files.
			if [[ $word == :0 ]]; then compopt -o default 2>/dev/null; fi
		elif [[ -n $word ]]; then
			COMPREPLY+=("$word")
		fi
	done <<<"$reply"
	# For bash, a colon ends a word: it replaces only what follows the last one.
	if [[ $COMP_WORDBREAKS == *:* && $last == *:* ]]; then
		colon=${last%"${last##*:}"}
		colon=${colon##*=}
		COMPREPLY=("${COMPREPLY[@]#"$colon"}")
	fi
}

complete -F _glassback glassback
