package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// A PlotFile is the file of a plot, made before what is plotted is measured: it must not fail
// after it.
type PlotFile struct {
	temporary *os.File
	Name      string
}

// CheckPlot refuses a name of a plot's file that says no format. No name is none.
func CheckPlot(name string) error {
	if name == "" {
		return nil
	}
	if err := draw.CheckName(name); err != nil {
		return exit.Usagef("--plot: %v", err)
	}
	return nil
}

// CreatePlot returns nil for no name.
func CreatePlot(name string) (*PlotFile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".plot-")
	if err != nil {
		return nil, fmt.Errorf("write the plot into %s: %w", filepath.Dir(name), withoutName(err))
	}
	return &PlotFile{f, name}, nil
}

// Save writes the picture and gives the file its name. It takes what drawing returns.
func (p *PlotFile) Save(picture []byte, err error) error {
	if err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	_, err = p.temporary.Write(picture)
	if err == nil {
		err = p.temporary.Chmod(0o644) // a picture is for everyone
	}
	if err = errors.Join(err, p.temporary.Close()); err == nil {
		err = os.Rename(p.temporary.Name(), p.Name)
	}
	if err != nil {
		return fmt.Errorf("write the plot %s: %w", p.Name, withoutName(err))
	}
	return nil
}

// Discard removes a file that was not saved. Both calls fail when all went well: the file is
// closed, and has another name.
func (p *PlotFile) Discard() {
	if p != nil {
		_ = p.temporary.Close()
		_ = os.Remove(p.temporary.Name())
	}
}

// withoutName returns an error without the name of the temporary file, which says nothing to
// anybody.
func withoutName(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
