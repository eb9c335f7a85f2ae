"""The ray caster against a twin that solves one pixel at a time, and against what geometry says of light and shadow."""

import math

import numpy as np
import pytest

from monoseme.core.errors import UserError
from monoseme.worlds import Camera, Solid, render, scenes
from monoseme.worlds import raycast as rc

CROWD = (
    Solid("sphere", -1.0, 0.3, 0.6, colour=(0.8, 0.2, 0.1)),
    Solid("box", 0.9, 0.6, 0.5, 1.2, 30.0, (0.1, 0.4, 0.7)),
    Solid("cone", 0.1, -0.9, 0.45, 1.0, colour=(0.9, 0.6, 0.1)),
    Solid("box", -0.9, -1.2, 0.25, 0.4, 0.0, (0.3, 0.3, 0.3)),
)


def surfaces(solid, o, d):
    """All (t > 0, outward normal) where the line o + t d meets the surface, from the equations of its faces."""
    foot = np.array([solid.x, solid.y, 0.0])
    found = []
    if solid.kind == "sphere":
        c = np.array([solid.x, solid.y, solid.radius])
        roots = np.roots([d @ d, 2 * d @ (o - c), (o - c) @ (o - c) - solid.radius**2])
        found = [(r.real, (o + r.real * d - c) / solid.radius) for r in roots if abs(r.imag) < 1e-12]
    elif solid.kind == "box":
        a = math.radians(solid.turn)
        axes = [
            np.array([math.cos(a), math.sin(a), 0]),
            np.array([-math.sin(a), math.cos(a), 0]),
            np.array([0, 0, 1.0]),
        ]
        half, middle = [solid.radius, solid.radius, solid.height / 2], np.array([solid.x, solid.y, solid.height / 2])
        for k in range(3):
            for sign in (-1, 1):
                normal = sign * axes[k]
                if normal @ d != 0:
                    t = (half[k] - normal @ (o - middle)) / (normal @ d)
                    p = o + t * d - middle
                    if all(abs(p @ axes[j]) <= half[j] for j in range(3) if j != k):
                        found.append((t, normal))
    else:
        k2 = (solid.radius / solid.height) ** 2
        q, top = o - foot, solid.height - o[2]
        roots = np.roots(
            [
                d[0] ** 2 + d[1] ** 2 - k2 * d[2] ** 2,
                2 * (q[0] * d[0] + q[1] * d[1] + k2 * top * d[2]),
                q[0] ** 2 + q[1] ** 2 - k2 * top**2,
            ]
        )
        for r in roots:
            p = q + r.real * d
            if abs(r.imag) < 1e-12 and 0 <= p[2] <= solid.height:
                normal = np.array([p[0], p[1], k2 * (solid.height - p[2])])
                found.append((r.real, normal / np.linalg.norm(normal)))
    return [(t, n) for t, n in found if t > 0]


def slow_pixel(solids, azimuth, elevation, camera, size, i, j):
    """What one pixel shows: (index, depth, normal, cast shadow, linear colour)."""
    eye, axis = np.array(camera.eye), np.subtract(camera.target, camera.eye)
    axis = axis / np.linalg.norm(axis)
    right = np.cross(axis, [0, 0, 1])
    right /= np.linalg.norm(right)
    up, reach = np.cross(right, axis), math.tan(math.radians(camera.fov / 2))
    d = axis + right * reach * ((2 * j + 1) / size - 1) - up * reach * ((2 * i + 1) / size - 1)
    d /= np.linalg.norm(d)
    met = [(t, n, k) for k, solid in enumerate(solids, 1) for t, n in surfaces(solid, eye, d)]
    if d[2] < 0:
        met.append((-eye[2] / d[2], np.array([0, 0, 1.0]), 0))
    if not met:
        sky = rc.HORIZON[:, 0] + (rc.ZENITH - rc.HORIZON)[:, 0] * max(d[2], 0) ** 0.6
        return 0, np.inf, np.zeros(3), False, sky
    t, n, k = min(met, key=lambda hit: hit[0])
    a, e = math.radians(azimuth), math.radians(elevation)
    light = np.array([math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)])
    point = eye + t * d
    facing = n @ light > 0
    cast = bool(facing and any(surfaces(solid, point + 1e-6 * n, light) for solid in solids))
    albedo = rc.PLANE[:, 0] if k == 0 else np.array(solids[k - 1].colour)
    colour = albedo * (rc.AMBIENT[:, 0] + rc.SUN[:, 0] * (n @ light if facing and not cast else 0))
    if k == 0:
        colour = rc.HORIZON[:, 0] + (colour - rc.HORIZON[:, 0]) * math.exp(-((t / rc.HAZE) ** 2))
    return k, t * (d @ axis), n, cast, colour


@pytest.mark.parametrize(("azimuth", "elevation"), [(200.0, 35.0), (60.0, 15.0), (310.0, 90.0)])
def test_every_pixel_equals_the_slow_twin(azimuth, elevation):
    size, camera = 28, Camera((0.7, -6.0, 2.5), (0.1, 0.0, 0.5), 45.0)
    scene = render(CROWD, azimuth, elevation, size, camera, supersample=1)
    assert set(np.unique(scene.mask)) == {0, 1, 2, 3, 4}
    assert not np.isfinite(scene.depth).all()  # some sky is in the picture
    for i in range(size):
        for j in range(size):
            k, depth, normal, cast, colour = slow_pixel(CROWD, azimuth, elevation, camera, size, i, j)
            assert scene.mask[i, j] == k
            assert scene.depth[i, j] == pytest.approx(depth, rel=1e-5)
            np.testing.assert_allclose(scene.normals[i, j], normal, atol=1e-5)
            assert scene.shadow[i, j] == cast
            encoded = np.where(colour <= 0.0031308, 12.92 * colour, 1.055 * colour ** (1 / 2.4) - 0.055)
            assert np.abs(scene.image[i, j] - 255 * encoded).max() <= 0.5 + 1e-6


def test_the_picture_is_the_mean_of_finer_rays_in_linear_light():
    fine = render(CROWD, 200.0, 35.0, 48, supersample=1)
    coarse = render(CROWD, 200.0, 35.0, 16, supersample=3)

    def linear(image):
        v = image / 255
        return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)

    mean = linear(fine.image).reshape(16, 3, 16, 3, 3).mean((1, 3))
    np.testing.assert_allclose(linear(coarse.image), mean, atol=0.012)  # two roundings to 1/255 in sRGB
    one = render(CROWD, 200.0, 35.0, 16, supersample=1)
    for name in ("mask", "depth", "normals", "shadow"):
        np.testing.assert_array_equal(getattr(coarse, name), getattr(one, name))


def test_normals_are_unit_and_face_the_camera():
    for scene in scenes(6, seed=3, size=64, objects=(3, 6), supersample=1):
        seen = np.isfinite(scene.depth)
        np.testing.assert_allclose(np.linalg.norm(scene.normals[seen], axis=1), 1, atol=1e-6)
        assert (scene.normals[~seen] == 0).all()
        rays = Camera().rays(64).T.reshape(64, 64, 3)
        assert ((scene.normals * rays).sum(2)[seen] < 1e-6).all()


def test_a_sphere_on_the_axis_is_nearest_in_the_middle_at_distance_minus_radius():
    camera = Camera((0.0, -5.0, 0.8), (0.0, 0.0, 0.8), 40.0)
    scene = render((Solid("sphere", 0.0, 0.0, 0.8),), 45.0, 40.0, 65, camera, 1)
    ball = np.where(scene.mask == 1, scene.depth, np.inf)
    assert np.unravel_index(ball.argmin(), ball.shape) == (32, 32)
    assert ball[32, 32] == pytest.approx(5.0 - 0.8, abs=1e-6)
    np.testing.assert_allclose(scene.normals[32, 32], [0, -1, 0], atol=1e-6)
    # its outline: half-angle asin(r / distance), a circle about the axis
    half = math.tan(math.asin(0.8 / 5.0)) / math.tan(math.radians(20)) * 65 / 2
    assert (scene.mask[32] == 1).sum() == pytest.approx(2 * half, abs=1)


def ground(scene, camera):
    """World points of the pixels in which the plane lies in a cast shadow."""
    size = len(scene.mask)
    rays = camera.rays(size)
    points = np.array(camera.eye)[:, None] + rays * (scene.depth.ravel() / (camera.axis @ rays))
    return points.T[(scene.shadow & (scene.mask == 0)).ravel()]


@pytest.mark.parametrize("azimuth", [10.0, 100.0, 190.0, 250.0, 350.0])
@pytest.mark.parametrize("elevation", [30.0, 45.0, 60.0])
def test_a_shadow_lies_opposite_the_light_and_is_height_over_tangent_long(azimuth, elevation):
    height, camera = 1.0, Camera((0.0, -3.0, 9.0), (0.0, 0.0, 0.0), 40.0)
    scene = render((Solid("cone", 0.0, 0.0, 0.3, height),), azimuth, elevation, 200, camera, 1)
    points = ground(scene, camera)
    far = points[np.hypot(points[:, 0], points[:, 1]).argmax()]
    np.testing.assert_allclose(far[2], 0, atol=1e-5)
    tip = -height / math.tan(math.radians(elevation)) * np.exp(1j * math.radians(azimuth))
    assert abs(complex(far[0], far[1]) - tip) < 0.12  # a pixel is 0.035 wide; nearer the tip the shadow is thinner


def test_overhead_light_casts_a_shadow_only_where_a_solid_overhangs():
    camera = Camera((0.0, -4.0, 1.2), (0.0, 0.0, 0.3), 40.0)
    box = render((Solid("box", 0, 0, 0.5, 1.0), Solid("cone", 1.5, 0, 0.4, 1.0)), 0.0, 90.0, 96, camera, 1)
    assert not box.shadow.any()
    points = ground(render((Solid("sphere", 0, 0, 0.5),), 0.0, 90.0, 96, camera, 1), camera)
    assert len(points) > 50
    assert np.hypot(points[:, 0], points[:, 1]).max() <= 0.5 + 1e-5


@pytest.mark.parametrize("azimuth", [90.0, 270.0])
def test_a_symmetric_scene_makes_a_symmetric_picture(azimuth):
    solids = (
        Solid("box", 0.0, 1.0, 0.4, 1.0),
        Solid("sphere", -1.0, -0.2, 0.5, colour=(0.7, 0.1, 0.1)),
        Solid("sphere", 1.0, -0.2, 0.5, colour=(0.7, 0.1, 0.1)),
        Solid("cone", 0.0, -1.0, 0.4, 0.9),
    )
    scene = render(solids, azimuth, 40.0, 64)
    mirrored = scene.image[:, ::-1].astype(int)
    # a ray that grazes an edge may be rounded to either side
    assert (np.abs(scene.image - mirrored).max(2) > 1).mean() < 0.002
    left, right = scene.mask == 2, scene.mask[:, ::-1] == 3
    assert (left != right).sum() <= 1


def test_more_light_from_the_front_and_lambert_on_the_plane():
    for elevation in (20.0, 50.0, 90.0):
        scene = render((), 0.0, elevation, 32, supersample=1)
        near = scene.image[-1, 16] / 255  # a little haze even here
        linear = ((near + 0.055) / 1.055) ** 2.4
        bare = (rc.PLANE * (rc.AMBIENT + rc.SUN * math.sin(math.radians(elevation))))[:, 0]
        assert (np.abs(linear - bare) < 0.05).all()
        assert not scene.shadow.any()


def test_a_scene_is_a_function_of_seed_and_index_alone():
    few, many = scenes(3, seed=5, size=24), scenes(9, seed=5, size=24)
    for i in range(3):
        np.testing.assert_array_equal(few[i].image, many[i].image)
        assert few.solids(i) == many.solids(i) == many[i].solids
    assert [s.azimuth for s in few] == [few[i].azimuth for i in range(3)]
    np.testing.assert_array_equal(few[-1].image, few[2].image)
    assert few.solids(0) != scenes(3, seed=6, size=24).solids(0)
    with pytest.raises(IndexError):
        few[3]


def test_a_light_sweep_changes_the_light_and_nothing_else():
    sweep = scenes(5, seed=1, size=48, objects=(2, 3), azimuth=np.arange(5) * 72.0, elevation=40.0, layout=7)
    shown = list(sweep)
    for scene in shown[1:]:
        for name in ("mask", "depth", "normals"):
            np.testing.assert_array_equal(getattr(scene, name), getattr(shown[0], name))
        assert (scene.shadow != shown[0].shadow).any()
        assert scene.solids == shown[0].solids == scenes(8, seed=1, objects=(2, 3)).solids(7)
    assert [scene.azimuth for scene in shown] == [0, 72, 144, 216, 288]
    # fixing the light does not move the solids
    assert scenes(3, seed=1, azimuth=10).solids(2) == scenes(3, seed=1).solids(2)


def test_solids_keep_apart_and_lights_fill_their_range():
    many = scenes(200, seed=2, objects=(0, 6))
    counts = [len(many.solids(i)) for i in range(200)]
    assert set(counts) == set(range(7))
    kinds = set()
    for i in range(200):
        standing = many.solids(i)
        kinds |= {solid.kind for solid in standing}
        for a in range(len(standing)):
            for b in range(a):
                one, other = standing[a], standing[b]
                reach = [s.radius * (math.sqrt(2) if s.kind == "box" else 1) for s in (one, other)]
                assert math.hypot(one.x - other.x, one.y - other.y) > sum(reach) + 0.1
    assert kinds == {"sphere", "box", "cone"}
    assert 20 <= many.elevation.min() < 25
    assert 70 < many.elevation.max() <= 75
    np.testing.assert_allclose(np.histogram(many.azimuth, 4, (0, 360))[0], 50, atol=5 * math.sqrt(50 * 0.75))


def test_a_full_stage_is_still_filled():
    assert len(scenes(1, seed=0, objects=(12, 12)).solids(0)) == 12


BAD = [
    (lambda: scenes(0), "n"),
    (lambda: scenes(2, objects=(3, 2)), "objects"),
    (lambda: scenes(2, objects=(0, 13)), "objects"),
    (lambda: scenes(2, azimuth=[1.0, 2.0, 3.0]), "azimuth"),
    (lambda: scenes(2, azimuth=float("nan")), "azimuth"),
    (lambda: scenes(2, elevation=0.0), "elevation"),
    (lambda: scenes(2, size=0), "size"),
    (lambda: scenes(2, supersample=0), "supersample"),
    (lambda: render((), 0.0, -5.0), "elevation"),
    (lambda: render((), 0.0, 5.0, size=0), "size"),
    (lambda: render((Solid("box", 0, 0, 1.0),) * 256, 0.0, 5.0), "solids"),
    (lambda: Solid("pyramid", 0, 0, 1.0), "kind"),
    (lambda: Solid("box", 0, 0, 0.0), "radius"),
    (lambda: Solid("cone", 0, 0, 1.0, -1.0), "height"),
    (lambda: Solid("cone", 0, 0, 1.0, colour=(255.0, 0.0, 0.0)), "colour"),
    (lambda: Camera((0.0, 0.0, -1.0)), "eye"),
    (lambda: Camera((0.0, 0.0, 5.0), (0.0, 0.0, 0.0)), "target"),
    (lambda: Camera(fov=180.0), "fov"),
]


@pytest.mark.parametrize(("make", "name"), BAD)
def test_bad_arguments_are_refused_in_one_line(make, name):
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value).startswith(f"{name} must ")
    assert "\n" not in str(caught.value)
