package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// forCompletion makes the texts of all flags such as shells show beside them: one line, without the
// marks that help texts have.
func forCompletion(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = inOneLine(f.Usage) })
	for _, sub := range cmd.Commands() {
		forCompletion(sub)
	}
}

// inOneLine returns the text of a flag with the names of the list that it ends with, if there is one,
// and without what they are about.
func inOneLine(usage string) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(usage, "`", "")), "\n")
	for i, line := range lines {
		if !strings.HasSuffix(line, ":") || i == len(lines)-1 {
			continue
		}
		var entries []string
		for _, entry := range lines[i+1:] {
			if entry != "" && entry == strings.TrimLeft(entry, " ") { // others go on with the one before
				entries = append(entries, entry)
			}
		}
		if len(entries) > 1 {
			for j, entry := range entries {
				entries[j] = strings.Fields(entry)[0]
			}
		}
		return strings.Join(lines[:i+1], " ") + " " + strings.Join(entries, ", ")
	}
	return strings.Join(lines, " ")
}

// List writes names and what they are about in two columns, for the help texts of flags.
func List(names, abouts []string) string {
	const columns = 42 // of 80, that pflag leaves to the text
	width := 0
	for _, n := range names {
		width = max(width, len(n))
	}
	var b strings.Builder
	for i, n := range names {
		used := width + 1
		fmt.Fprintf(&b, "%-*s ", width, n)
		for _, word := range strings.Fields(abouts[i]) {
			if used+1+len(word) > columns {
				used = width + 1
				fmt.Fprintf(&b, "\n%*s", used, "")
			}
			used += 1 + len(word)
			b.WriteString(" " + word)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
