package mutant

import (
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/sim"
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

func TestSelf(t *testing.T) { Test(t, sim.Long(), time.Minute, self) }

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

// The check of types alone refuses what the compiler refuses.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		m    Mutant
		want string
	}{
		"sound":       {self[0], ""},
		"wrong type":  {Mutant{Name: "m", Test: "T", File: "mutant.go", Old: `i += 2`, New: `i += "2"; _ = On`}, "mismatched types"},
		"unused":      {Mutant{Name: "m", Test: "T", File: "mutant.go", Old: `i += 2`, New: `i += 2; x := On`}, "declared and not used"},
		"syntax":      {Mutant{Name: "m", Test: "T", File: "mutant.go", Old: `i += 2`, New: `i += (2; On`}, "expected"},
		"only a test": {Mutant{Name: "m", Test: "T", File: "mutant_test.go", Old: "only a" + " test", New: "On"}, "no package has [mutant_test.go]"},
	} {
		changed, err := sources(".", []Mutant{c.m})
		require.NoError(t, err, name)
		if err = check(changed, folders([]Mutant{c.m})); c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
	}
}
