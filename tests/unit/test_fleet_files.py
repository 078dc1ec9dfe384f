"""examples/fleet: the manifests for Kubernetes, which the tests cannot apply."""

import json
import re
import shlex
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow.core.protobuf import config_pb2

import ios_tf

yaml = pytest.importorskip("yaml", reason="PyYAML (the extra docs has it)")
validate = pytest.importorskip(
    "kubernetes_validate", reason="kubernetes-validate (the extra test has it)"
).validate
FLEET = Path(__file__).resolve().parents[2] / "examples" / "fleet"
KUBERNETES = "1.34"
# Some fields of KubeRay's resources, from ray-operator/apis/ray/v1/rayjob_types.go and
# raycluster_types.go in github.com/ray-project/kuberay.
RAY_JOB = {
    "entrypoint": str,
    "shutdownAfterJobFinishes": bool,
    "ttlSecondsAfterFinished": int,
    "activeDeadlineSeconds": int,
    "backoffLimit": int,
    "submissionMode": str,
    "runtimeEnvYAML": str,
    "rayClusterSpec": dict,
}
RAY_CLUSTER = {"rayVersion": str, "headGroupSpec": dict, "workerGroupSpecs": list}
HEAD_GROUP = {"rayStartParams": dict, "template": dict, "serviceType": str}
WORKER_GROUP = {
    "groupName": str,
    "replicas": int,
    "minReplicas": int,
    "maxReplicas": int,
    "numOfHosts": int,
    "rayStartParams": dict,
    "template": dict,
}


def documents(name: str) -> list[dict]:
    return list(yaml.safe_load_all((FLEET / name).read_text()))


def of_kind(name: str, kind: str) -> dict:
    (found,) = (each for each in documents(name) if each["kind"] == kind)
    return found


@pytest.fixture(scope="module")
def cluster() -> dict:
    return of_kind("ray_job.yaml", "RayJob")["spec"]["rayClusterSpec"]


def pod_templates() -> dict[str, dict]:
    """The templates of all pods by the names of their containers."""
    cluster = of_kind("ray_job.yaml", "RayJob")["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    templates = [group["template"] for group in groups]
    templates.append(of_kind("server.yaml", "Deployment")["spec"]["template"])
    job = of_kind("nightly.yaml", "CronJob")["spec"]["jobTemplate"]
    templates.append(job["spec"]["template"])
    return {each["spec"]["containers"][0]["name"]: each for each in templates}


@pytest.mark.parametrize("name", ["storage.yaml", "server.yaml", "nightly.yaml"])
def test_manifests_fit_the_schemas_of_kubernetes(name):
    for document in documents(name):
        validate(document, KUBERNETES, strict=True)


def test_the_schemas_find_mistakes():
    deployment = of_kind("server.yaml", "Deployment")
    deployment["spec"]["replica"] = deployment["spec"].pop("replicas")
    with pytest.raises(Exception, match="replica"):
        validate(deployment, KUBERNETES, strict=True)


@pytest.mark.parametrize("container", ["ray-head", "ray-worker"])
def test_pods_of_the_ray_cluster_fit_the_schemas_of_kubernetes(container):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}
    validate(pod | pod_templates()[container], KUBERNETES, strict=True)


def check_fields(value: dict, fields: dict[str, type]) -> None:
    for name, member in value.items():
        assert type(member) is fields[name], name


def test_fields_of_the_ray_job_are_those_of_kuberay(cluster):
    job = of_kind("ray_job.yaml", "RayJob")
    assert job["apiVersion"] == "ray.io/v1"
    check_fields(job["spec"], RAY_JOB)
    check_fields(cluster, RAY_CLUSTER)
    check_fields(cluster["headGroupSpec"], HEAD_GROUP)
    for group in cluster["workerGroupSpecs"]:
        check_fields(group, WORKER_GROUP)
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert all(type(value) is str for value in group["rayStartParams"].values())


def test_each_worker_is_one_device(cluster):
    (group,) = cluster["workerGroupSpecs"]
    # KubeRay writes the value into the shell command `ray start --resources=…`.
    (resources,) = shlex.split(group["rayStartParams"]["resources"])
    assert json.loads(resources) == {"ios_tf_device": 1}


def test_workers_measure_on_as_many_cores_as_servers_have():
    """Schedules are made for one number of cores, which workers and servers must have.

    Kubernetes gives a pod its own cores only if it requests a whole number of CPUs, and
    if this number equals the limit.
    """
    templates = pod_templates()
    for name in ("ray-worker", "server"):
        resources = templates[name]["spec"]["containers"][0]["resources"]
        assert resources["requests"] == resources["limits"]
        assert resources["limits"]["cpu"] == "14"
    kinds = [
        templates[name]["spec"]["nodeSelector"] for name in ("ray-worker", "server")
    ]
    assert kinds[0] == kinds[1]


def test_pods_mount_what_exists():
    """All volumes are mounted from claims and generated ConfigMaps of the example."""
    claims = {each["metadata"]["name"] for each in documents("storage.yaml")}
    (kustomization,) = documents("kustomization.yaml")
    generated = {
        each["name"]: each["files"] for each in kustomization["configMapGenerator"]
    }
    assert all((FLEET / name).exists() for name in kustomization["resources"])
    for template in pod_templates().values():
        volumes = {each["name"]: each for each in template["spec"]["volumes"]}
        for container in template["spec"]["containers"]:
            for mount in container["volumeMounts"]:
                volume = volumes[mount["name"]]
                if "configMap" in volume:
                    (file,) = generated[volume["configMap"]["name"]]
                    assert (FLEET / file).exists()
                    path = f"{mount['mountPath']}/{file}"
                    assert any(path in word for word in container["args"])
                else:
                    assert volume["persistentVolumeClaim"]["claimName"] in claims
    assert all(
        each["spec"]["accessModes"] == ["ReadWriteMany"]
        for each in documents("storage.yaml")
    )


def test_the_nightly_job_replaces_what_its_role_allows():
    role = of_kind("nightly.yaml", "Role")
    assert role["rules"][0]["resources"] == ["rayjobs"]
    assert of_kind("nightly.yaml", "RoleBinding")["roleRef"]["name"] == "tune"
    template = of_kind("nightly.yaml", "CronJob")["spec"]["jobTemplate"]["spec"][
        "template"
    ]
    assert template["spec"]["serviceAccountName"] == "tune"


def test_the_version_of_ray_is_that_of_the_image(cluster):
    (version,) = re.findall(
        r"ray\[default\]==([\d.]+)", (FLEET / "Dockerfile").read_text()
    )
    assert cluster["rayVersion"] == version


def test_servers_are_configured_as_enable_configures_a_session():
    """The servers use the cache that the workers fill."""
    text = (FLEET / "platform.config").read_text()
    # TensorFlow Serving's Python package lacks the protocol buffers that contain
    # session_config.
    (config,) = re.findall(r"session_config \{\n(.*?)\n {10}\}", text, re.DOTALL)
    found = text_format.Parse(config, config_pb2.ConfigProto())
    assert found == ios_tf.session_config(cache_dir="/cache")
    entrypoint = of_kind("ray_job.yaml", "RayJob")["spec"]["entrypoint"].split()
    assert entrypoint[:2] == ["ios_tf", "tune"]
    assert "--cache_dir=/cache" in entrypoint
