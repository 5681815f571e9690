package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
)

// A PlotFile is the file of a plot, made before what is plotted is measured: it must not fail
// after it.
type PlotFile struct {
	file *outfile.File
	Name string
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
	f, err := outfile.Create(name, true)
	if err != nil {
		return nil, fmt.Errorf("write the plot: %w", err)
	}
	return &PlotFile{f, name}, nil
}

// Save writes the picture and gives the file its name. It takes what drawing returns.
func (p *PlotFile) Save(picture []byte, err error) error {
	if err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	_, err = p.file.Write(picture)
	if err == nil && p.file.Regular() {
		err = p.file.Chmod(0o644) // a picture is for everyone
	}
	if err == nil {
		err = p.file.Commit()
	}
	if err != nil {
		return fmt.Errorf("write the plot %s: %w", p.Name, withoutName(err))
	}
	return nil
}

// Discard removes a file that was not saved.
func (p *PlotFile) Discard() {
	if p != nil {
		_ = p.file.Discard() // of another error, more is known
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
