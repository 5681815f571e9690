// Package repro lists the experiments behind figures and tables of papers, which the packages below it repeat on the schemes of this
// module, each those of one paper.
package repro

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/ferretti"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/ppc"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/saas"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/waage"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/zerodb"
)

// Figures returns all figures that can be reproduced.
func Figures() []experiment.Figure {
	return slices.Concat(waage.Figures(), ppc.Figures(), ferretti.Figures(), saas.Figures(), zerodb.Figures())
}

// Find returns the figure with a name.
func Find(name string) (experiment.Figure, error) {
	var names []string
	for _, f := range Figures() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return experiment.Figure{}, fmt.Errorf("unknown figure %q: there is %s", name, strings.Join(names, ", "))
}
