"""Addresses of the pages about people and the shape of the project tree."""

from django.urls import path

from portal.dashboard import views_people, views_people_tree

urlpatterns = [
    path("people/", views_people.people, name="people"),
    path("people/<path:path>/", views_people.project_people, name="project_people"),
    path("people-give/<path:path>/", views_people.role_give, name="role_give"),
    path("people-change/<path:path>/", views_people.role_change, name="role_change"),
    path("people-invite/<path:path>/", views_people.invite, name="invite"),
    path("invitations/<int:invitation_id>/withdraw/", views_people.invitation_end, name="invitation_end"),
    path("invitation/<str:secret>/", views_people.invitation, name="invitation"),
    path("tree/new/<path:path>/", views_people_tree.project_new, name="project_new"),
    path("tree/rename/<path:path>/", views_people_tree.project_rename, name="project_rename"),
    path("tree/move/<path:path>/", views_people_tree.project_place, name="project_place"),
    path("tree/archive/<path:path>/", views_people_tree.project_close, name="project_close"),
    path("tree/unarchive/<path:path>/", views_people_tree.project_open, name="project_open"),
]
