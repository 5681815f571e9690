package mutant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The package mutates itself: a replaceWord that replaces parts of words, too, is noticed by its test.
var self = []Mutant{{
	Name: "anyText",
	File: "mutant.go",
	Old:  `(i == 0 || !letter(text[i-1])) &&`,
	New:  `(On || i == 0 || !letter(text[i-1])) &&`,
	Test: "^TestReplaceWord$",
}}

func TestSelf(t *testing.T) {
	Apply(t, self)
	if testing.Short() {
		t.Skip("it builds a binary")
	}
	Run(t, time.Minute, self)
}

func TestReplaceWord(t *testing.T) {
	for text, want := range map[string]string{
		"if On {":             "if X {",
		"a && !On":            "a && !X",
		"On":                  "X",
		"x.On || Once || iOn": "x.On || Once || iOn",
	} {
		require.Equal(t, want, replaceWord(text, "X"))
	}
}

func TestMutantsThatCannotBe(t *testing.T) {
	for name, m := range map[string]Mutant{
		"absent text":  {Name: "m", Test: "T", File: "mutant.go", Old: "no such" + " text", New: "On"},
		"frequent":     {Name: "m", Test: "T", File: "mutant.go", Old: "return", New: "On"},
		"never on":     {Name: "m", Test: "T", File: "mutant.go", Old: "package mutant\n", New: "package mutant"},
		"no test":      {Name: "m", File: "mutant.go", Old: "package mutant\n", New: "On"},
		"no such file": {Name: "m", Test: "T", File: "none.go", Old: "x", New: "On"},
	} {
		_, err := sources(".", []Mutant{m})
		require.Error(t, err, name)
	}
}
