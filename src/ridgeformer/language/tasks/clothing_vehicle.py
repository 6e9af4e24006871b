"""Clothes and vehicles."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask

CLOTHING = """
    shirt dress skirt coat jacket hat cap scarf glove sock shoe boot sandal belt tie vest
    sweater jeans trousers shorts pajamas robe gown suit blouse hoodie cardigan apron cloak
    mitten slipper sneaker bikini bra underwear leggings tights uniform kimono poncho tuxedo
    veil turban shawl raincoat sweatshirt
"""

VEHICLE = """
    car truck bus van taxi train tram bicycle motorcycle scooter boat ship ferry yacht canoe
    kayak raft submarine airplane helicopter jet glider rocket tractor bulldozer ambulance
    limousine sled wagon carriage cart trolley jeep sedan coupe minivan pickup motorbike
    tricycle unicycle skateboard hovercraft sailboat steamship balloon locomotive
    convertible tanker
"""


@dataclass(frozen=True)
class ClothingVehicle(ClassTask):
    """Is the word a piece of clothing or a vehicle?"""

    name = "clothing-vehicle"
    summary = "clothing or vehicle"
    classes = ("clothing", "vehicle")
    members = (tuple(CLOTHING.split()), tuple(VEHICLE.split()))
