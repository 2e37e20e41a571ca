from slugify import slugify


def test_a_title_becomes_a_slug():
    assert slugify("Grüße aus Köln") == "grusse-aus-koln"
