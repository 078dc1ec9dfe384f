"""examples/serving: the files for containers, which the tests cannot build."""

import re
from pathlib import Path

import pytest
from commands import run_python
from serving_examples import EXAMPLES, load_test, prepare

yaml = pytest.importorskip("yaml", reason="PyYAML (the extra docs has it)")
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"NAME": "inception", "MODEL": "/m", "CORES": "0-3", "CLIENT_CORES": ""}


@pytest.fixture
def services():
    text = (EXAMPLES / "compose.yaml").read_text()
    # ${NAME:?message} and ${NAME:-default}
    text = re.sub(r"\$\{(\w+):[^}]*\}", lambda found: ENVIRONMENT[found[1]], text)
    return yaml.safe_load(text)["services"]


def fits_the_schema_of_compose(path: Path) -> bool:
    """Whether a file fits the schema, which the package check-jsonschema contains."""
    command = ["-m", "check_jsonschema", "--no-cache"]
    command += ["--builtin-schema=vendor.compose-spec", path]
    done = run_python(*command, status=None)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


def test_compose_file_fits_the_schema(tmp_path):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema (extra test)")
    compose = EXAMPLES / "compose.yaml"
    assert fits_the_schema_of_compose(compose)
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(compose.read_text().replace("start_period", "startperiod"))
    assert not fits_the_schema_of_compose(wrong)


def test_commands_of_compose_have_flags_that_exist(services):
    for name, program in (("prepare", prepare), ("load_test", load_test)):
        script, *words = services[name]["command"]
        assert script == f"{program.__name__}.py"
        flags = program._parser().parse_args(words)
        assert flags.name == "inception"
        assert flags.model == "/original"
    assert (flags.grpc, flags.rest, flags.pid) == ("server:8500", "server:8501", 1)


def test_latencies_are_measured_on_the_cores_that_serve(services):
    assert services["prepare"]["cpuset"] == services["server"]["cpuset"] == "0-3"


def test_server_reads_what_the_preparation_writes(services):
    assert "models:/models" in services["prepare"]["volumes"]
    assert "models:/models:ro" in services["server"]["volumes"]
    flag = "--model_config_file=/models/models.config"
    assert flag in services["server"]["command"]


def test_packages_of_the_server_are_those_of_the_build():
    """The Dockerfile installs the versions of packages with which setup.py builds."""
    dockerfile = (EXAMPLES / "Dockerfile").read_text()
    wanted = (ROOT / "pyproject.toml").read_text()
    for package in ("onednn-cpu-gomp", "onednn-devel-cpu-gomp", "nlohmann-json"):
        (version,) = re.findall(rf"\b{package}==([\d.]+)", dockerfile)
        assert f'"{package}=={version}' in wanted


def test_both_stages_have_the_release_of_the_patch():
    dockerfile = (EXAMPLES / "Dockerfile").read_text()
    tags = re.findall(r"FROM tensorflow/serving:([\d.]+)", dockerfile)
    assert len(tags) == 2
    assert set(tags) == {"2.20.0"}
    assert "TensorFlow Serving 2.20.0" in (EXAMPLES / "README.md").read_text()


def test_patch_names_targets_that_exist():
    patch = (EXAMPLES / "tensorflow_serving.patch").read_text()
    assert '+    "@ios_tf//cc:ios_tf_ops",' in patch
    assert 'name = "ios_tf_ops"' in (ROOT / "cc" / "BUILD").read_text()
    assert (
        "installed_wheels = repository_rule("
        in (ROOT / "cc" / "third_party" / "wheels.bzl").read_text()
    )
