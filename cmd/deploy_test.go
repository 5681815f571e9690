package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// The manifest for Kubernetes has what a Job in parts needs, and a command that there is. It names the key, and does not have it.
func TestKubernetesManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "kubernetes", "convert.yaml"))
	require.NoError(t, err)
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			CompletionMode       string `yaml:"completionMode"`
			Completions          int
			Parallelism          int
			BackoffLimitPerIndex int `yaml:"backoffLimitPerIndex"`
			Template             struct {
				Spec struct {
					RestartPolicy                string `yaml:"restartPolicy"`
					AutomountServiceAccountToken bool   `yaml:"automountServiceAccountToken"`
					Containers                   []struct {
						Name, Image   string
						Command, Args []string
						Env           []struct {
							Name      string
							ValueFrom struct {
								SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
							} `yaml:"valueFrom"`
						}
						Resources       any
						SecurityContext any `yaml:"securityContext"`
					}
				}
			}
		}
	}
	require.NoError(t, yaml.UnmarshalWithOptions(text, &job, yaml.Strict()), "a field that the test does not know, or of another form")
	require.Equal(t, "batch/v1", job.APIVersion)
	require.Equal(t, "Job", job.Kind)
	require.Equal(t, "Indexed", job.Spec.CompletionMode)
	require.Positive(t, job.Spec.BackoffLimitPerIndex, "a part that failed is tried again")
	require.Positive(t, job.Spec.Parallelism)
	require.Equal(t, "Never", job.Spec.Template.Spec.RestartPolicy, "backoffLimitPerIndex needs it")
	require.Len(t, job.Spec.Template.Spec.Containers, 1)
	c := job.Spec.Template.Spec.Containers[0]
	require.Contains(t, c.Args, fmt.Sprint("--parts=", job.Spec.Completions))
	require.Contains(t, c.Args, "--part=$(JOB_COMPLETION_INDEX)")
	require.Len(t, c.Env, 1)
	require.Contains(t, c.Args, "--key=env:"+c.Env[0].Name)
	require.NotEmpty(t, c.Env[0].ValueFrom.SecretKeyRef.Name)
	line := strings.Join(append(c.Command, c.Args...), " ")
	require.NoError(t, parses(strings.ReplaceAll(line, "$(JOB_COMPLETION_INDEX)", "7")))
}
