// Package install tests how an operator comes to a running server: the questions of 'caddy pay-offer init' at a terminal, what
// stands around the server where it is installed, and the shipped Caddyfile before a certificate authority.
package install

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// instruction is a line of the Dockerfile.
type instruction struct{ name, rest string }

// image is what the last stage of the Dockerfile says.
func image(t *testing.T) (stages []string, last []instruction) {
	t.Helper()
	text := lab.Must(os.ReadFile(lab.Path(t, "caddy/package/Dockerfile")))(t)
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "" || name == "#":
		case name == "FROM":
			stages, last = append(stages, rest), nil
		default:
			require.Regexp(t, `^[A-Z]+$`, name)
			last = append(last, instruction{name, rest})
		}
	}
	return stages, last
}

// execForm is a command without a shell, which the image does not have.
func execForm(t *testing.T, text string) (command []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &command), "%s is no JSON list, so that a shell would run it", text)
	return command
}

// The image is laid out by its Dockerfile in a folder that becomes the root of a process without rights: whatever it misses
// of a system, it misses here.
func TestImageRunsUnprivilegedFromScratch(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Test(t, "only root can change the root folder")
	}
	stages, last := image(t)
	require.Regexp(t, `^golang:1\.26-\S+ AS build$`, stages[0])
	require.Equal(t, "scratch", stages[len(stages)-1])

	root := t.TempDir()
	for folder := root; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o755)) // for nobody to pass
	}
	var env, start, health []string
	var user, folder string
	built := map[string]string{"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt", "/caddy": server.Released(t)}
	for _, i := range last {
		words := strings.Fields(i.rest)
		switch i.name {
		case "COPY":
			target := filepath.Join(root, words[len(words)-1])
			source := words[len(words)-2]
			if words[0] == "--from=build" {
				if owner, owned := strings.CutPrefix(words[1], "--chown="); owned {
					id := lab.Must(strconv.Atoi(strings.Split(owner, ":")[0]))(t)
					require.NoError(t, os.MkdirAll(target, 0o755))
					require.NoError(t, os.Chown(target, id, id))
					continue
				}
				require.Contains(t, built, source)
				source = built[source]
			} else {
				source = lab.Path(t, source)
			}
			if strings.HasSuffix(words[len(words)-1], "/") {
				target = filepath.Join(target, filepath.Base(source))
			}
			data := lab.Must(os.ReadFile(source))(t)
			require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
			require.NoError(t, os.WriteFile(target, data, 0o755))
		case "USER":
			user = i.rest
		case "WORKDIR":
			folder = i.rest
		case "ENV":
			env = append(env, strings.Fields(strings.ReplaceAll(i.rest, `"`, ""))...)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(i.rest, "CMD ")
			health = execForm(t, command)
		case "ENTRYPOINT", "CMD":
			start = append(start, execForm(t, i.rest)...)
		case "VOLUME":
			require.DirExists(t, filepath.Join(root, i.rest))
		case "EXPOSE":
		default:
			t.Fatalf("the last stage has %s, which needs what it does not have", i.name)
		}
	}
	// What every engine puts into a container.
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost\n"), 0o644))
	id, err := strconv.Atoi(strings.Split(user, ":")[0])
	require.NoError(t, err, "a number, for there is no list of users")
	require.NotZero(t, id)

	address := "http://localhost:" + payoffertest.FreePort(t)
	env = append(env, "BASE_URL="+address, "SITE_URL=http://localhost:"+payoffertest.FreePort(t), "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t),
		"CARD_URL=https://checkout.example.org/42")
	inside := func(arguments []string) *exec.Cmd {
		return &exec.Cmd{Path: arguments[0], Args: arguments, Env: env, Dir: folder, SysProcAttr: &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)},
		}}
	}
	log := lab.Must(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	running := inside(start)
	running.Stdout, running.Stderr = log, log
	require.NoError(t, running.Start())
	t.Cleanup(func() {
		_ = running.Process.Kill() // it may have ended
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("The server's log:\n%s", said)
		}
	})
	server.Eventually(t, "the server answers", func() bool {
		a, err := server.Do(server.Client, http.MethodGet, address+"/v1/received", "", nil)
		return err == nil && a.Status == http.StatusOK
	})
	said, err := inside(health).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.FileExists(t, filepath.Join(root, "data/caddy/pay_offer.db"), "the ledger is in the volume")

	require.NoError(t, running.Process.Signal(syscall.SIGTERM))
	require.NoError(t, running.Wait())
	said, err = inside(health).CombinedOutput()
	require.Error(t, err, "nobody answers: %s", said)
}

// Everything is compiled with the flags of xcaddy.mk, once.
func TestImageUsesBuildFlags(t *testing.T) {
	makefile := lab.Must(os.ReadFile(lab.Path(t, "xcaddy.mk")))(t)
	flags := regexp.MustCompile(`(?m)^FLAGS +:= (.*)$`).FindStringSubmatch(string(makefile))
	require.NotNil(t, flags)
	dockerfile := lab.Must(os.ReadFile(lab.Path(t, "caddy/package/Dockerfile")))(t)
	require.Contains(t, string(dockerfile), " "+flags[1]+" ")
}

func TestSystemdAcceptsUnits(t *testing.T) {
	analyze := skip.Program(t, "systemd", "systemd-analyze")
	root := t.TempDir()
	output, err := exec.Command(server.Released(t), "pay-offer", "systemd", root).CombinedOutput()
	require.NoError(t, err, "%s", output)
	// The program must be where the units name it.
	const program = "=/usr/local/bin/caddy "
	var files []string
	for path := range strings.Lines(string(output)) {
		path = strings.TrimSpace(path)
		if filepath.Dir(path) != filepath.Join(root, "etc/systemd/system") {
			continue
		}
		unit := lab.Must(os.ReadFile(path))(t)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(unit), program, "="+server.Released(t)+" ")), 0o644))
		files = append(files, path)
	}
	require.Len(t, files, 4)
	verify := exec.Command(analyze, append([]string{"verify"}, files...)...)
	verify.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+filepath.Dir(files[0])+":")
	said, err := verify.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NotContains(t, string(said), "pay-offer", "a warning is a mistake, too")

	said, err = exec.Command(analyze, "security", "--offline=true", "--threshold=20", filepath.Join(filepath.Dir(files[0]), "pay-offer.service")).CombinedOutput()
	require.NoError(t, err, "the unit exposes more than 2.0: %s", said)
}

// What a service is given is declared, and read by somebody.
func TestComposeFileIsComplete(t *testing.T) {
	text := lab.Must(os.ReadFile(lab.Path(t, "caddy/package/compose.yaml")))(t)
	var composition struct {
		Services map[string]struct {
			Build       struct{ Context, Dockerfile string }
			Environment map[string]string
			Secrets     []string
			Volumes     []string
			DependsOn   map[string]any `yaml:"depends_on"`
		}
		Volumes map[string]any
		Secrets map[string]any
	}
	require.NoError(t, yaml.Unmarshal(text, &composition))
	for name, service := range composition.Services {
		for _, secret := range service.Secrets {
			require.Contains(t, composition.Secrets, secret, name)
			require.Contains(t, strings.Join(values(service.Environment), " "), "/run/secrets/"+secret, name)
		}
		for _, volume := range service.Volumes {
			require.Contains(t, composition.Volumes, strings.Split(volume, ":")[0], name)
		}
		for other := range service.DependsOn {
			require.Contains(t, composition.Services, other, name)
		}
	}
	offer := composition.Services["pay-offer"]
	folder := filepath.Join(lab.Path(t, "caddy/package"), offer.Build.Context)
	require.Equal(t, lab.Path(t, ""), folder)
	require.FileExists(t, filepath.Join(folder, offer.Build.Dockerfile))
	shipped := lab.Must(os.ReadFile(lab.Path(t, "caddy/package/Caddyfile")))(t)
	for variable := range offer.Environment {
		require.Regexp(t, `\{\$`+regexp.QuoteMeta(variable)+`[:}]`, string(shipped))
	}
}

func values(of map[string]string) (all []string) {
	for _, value := range of {
		all = append(all, value)
	}
	return all
}
